"""supervisord's configuration: every component is started again whenever it ends."""

import configparser
import hashlib
import io
import shlex
from collections.abc import Iterable
from pathlib import Path

from clusters.embedded.component import Component, Host
from clusters.embedded.layout import Layout

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# containerd starts runc and its shim, kube-proxy starts nft, the kubelet starts mount.
CALLED_BY_NAME = ("runc", "containerd-shim-runc-v2", "nft", "ip")


def path(layout: Layout) -> Path:
    """Where the configuration is kept."""
    return layout.config / "supervisord.conf"


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


def render(layout: Layout, host: Host, components: Iterable[Component]) -> str:
    """The configuration file.

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
    # Without its supervisor nobody would know of it, so it dies with it.
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
