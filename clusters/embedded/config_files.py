"""The cluster's configuration files: every component's own, and supervisord's for all of them.

supervisord starts every component again whenever it ends.
"""

import configparser
import hashlib
import io
import shlex
from collections.abc import Iterable
from pathlib import Path

from clusters.embedded.components import Component
from clusters.embedded.host import Host
from clusters.embedded.layout import Layout
from core import files

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# containerd starts runc and its shim, kube-proxy starts nft, the kubelet starts mount.
CALLED_BY_NAME = ("runc", "containerd-shim-runc-v2", "nft", "ip")


def rendered(layout: Layout, host: Host, components: list[Component]) -> dict[Path, str]:
    """Every configuration file and its content.

    Raises:
        FileNotFoundError: a program or certificate is missing.
    """
    texts = {file: text for component in components for file, text in component.files.items()}
    return texts | {layout.config / "supervisord.conf": supervisord(layout, host, components)}


def write(layout: Layout, host: Host, components: list[Component]) -> None:
    """Write all of it."""
    for directory in (layout.config, layout.cni, layout.logs, layout.volumes, layout.runtime):
        files.private_directory(directory)
    for file, text in rendered(layout, host, components).items():
        files.write(file, text, mode=0o600)


def problem(layout: Layout, host: Host, components: list[Component]) -> str | None:
    """Return which files don't have the expected content, or None."""
    try:
        expected = rendered(layout, host, components)
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    stale = [file.name for file, text in expected.items() if _read(file) != text]
    return f"changed since: {', '.join(stale)}" if stale else None


def search_path(host: Host) -> str:
    """PATH of the components: the tools that they call by name, then the system's own."""
    tools = [str(host.tool(name).path.parent) for name in CALLED_BY_NAME]
    return ":".join(dict.fromkeys([*tools, *SYSTEM_PATH]))


def fingerprint(component: Component) -> str:
    """A digest of all that a component reads when it starts, its program included.

    It stands in the component's section, so that supervisord starts it again when it changes.
    """
    program = Path(component.command[0]).stat()
    digest = hashlib.sha256(f"{program.st_size} {program.st_mtime_ns}".encode())
    for file, text in component.files.items():
        digest.update(f"{file}\0{text}\0".encode())
    for file in component.reads:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def supervisord(layout: Layout, host: Host, components: Iterable[Component]) -> str:
    """Return supervisord's configuration.

    Raises:
        FileNotFoundError: a program or credential is missing.
    """
    document = configparser.ConfigParser(interpolation=None)
    document["supervisord"] = {
        "logfile": str(layout.log("supervisord")),
        "logfile_maxbytes": "5MB",
        "logfile_backups": "1",
        "pidfile": str(layout.runtime / "supervisord.pid"),
        "childlogdir": str(layout.logs),
        "identifier": layout.node,
    }
    document["unix_http_server"] = {"file": str(layout.supervisor_socket), "chmod": "0700"}
    document["rpcinterface:supervisor"] = {
        "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
    }
    for component in components:
        document[f"program:{component.name}"] = _program(layout, host, component)
    text = io.StringIO()
    document.write(text)
    return text.getvalue()


def _program(layout: Layout, host: Host, component: Component) -> dict[str, str]:
    # Without its supervisor nothing would end it, so it dies with it.
    command = (host.path("setpriv"), "--pdeathsig", "KILL", "--", *component.command)
    environment = {
        "PATH": search_path(host),
        "SLIPWAY_FINGERPRINT": fingerprint(component),
        **component.environment,
    }
    settings = {
        "command": shlex.join(command),
        "environment": ",".join(f'{name}="{value}"' for name, value in environment.items()),
        "autostart": str(not component.calls_api).lower(),
        "autorestart": "true",
        "startsecs": "1",
        "startretries": "20",
        "stopwaitsecs": "5",
        "redirect_stderr": "true",
        "stdout_logfile": str(layout.log(component.name)),
        "stdout_logfile_maxbytes": "20MB",
        "stdout_logfile_backups": "1",
    }
    # supervisord expands %(name)s.
    return {name: value.replace("%", "%%") for name, value in settings.items()}


def _read(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None
