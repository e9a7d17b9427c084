"""The cluster's configuration files: every component's own, and supervisord's for all of them.

supervisord starts every component again whenever it ends.
"""

import configparser
import hashlib
import io
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from clusters.embedded import documents, host
from clusters.embedded.components import Component, components
from clusters.embedded.layout import Layout
from core import files, toolchain

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# containerd starts runc and its shim, kube-proxy starts nft, the kubelet starts mount.
CALLED_BY_NAME = ("runc", "containerd-shim-runc-v2", "nft", "ip")


def rendered(layout: Layout) -> dict[Path, str]:
    """Every configuration file and its content.

    Raises:
        FileNotFoundError: a program or certificate is missing.
    """
    programs = components(layout)
    texts = {file: text for program in programs for file, text in program.files.items()}
    return texts | {layout.config / "supervisord.conf": supervisord(layout, programs)}


def write(layout: Layout) -> None:
    """Write all of it."""
    for directory in (layout.config, layout.cni, layout.logs, layout.volumes, layout.runtime):
        files.private_directory(directory)
    for file, text in rendered(layout).items():
        files.write(file, text, mode=0o600)


def problem(layout: Layout) -> str | None:
    """Return which files don't have the expected content, or None."""
    try:
        expected = rendered(layout)
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    stale = [
        file.name
        for file, text in expected.items()
        if not file.exists() or file.read_text() != text
    ]
    return f"changed since: {', '.join(stale)}" if stale else None


def search_path() -> str:
    """PATH of the components: the tools that they call by name, then the system's own."""
    tools = [str(toolchain.path(name).parent) for name in CALLED_BY_NAME]
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


def supervisord(layout: Layout, programs: Iterable[Component]) -> str:
    """Return supervisord's configuration.

    Raises:
        FileNotFoundError: a program or credential is missing.
    """
    (sections,) = documents.load("supervisord.yaml")
    own, program = {**sections}, sections["program"]
    del own["program"]
    document = configparser.ConfigParser(interpolation=None)
    document.read_dict(documents.fill(own, vars(layout)))
    for component in programs:
        document[f"program:{component.name}"] = _program(layout, component, program)
    text = io.StringIO()
    document.write(text)
    return text.getvalue()


def _program(layout: Layout, component: Component, section: Mapping[str, str]) -> dict[str, str]:
    # Without its supervisor nothing would end it, so it dies with it.
    command = (host.path("setpriv"), "--pdeathsig", "KILL", "--", *component.command)
    environment = {
        "PATH": search_path(),
        "SLIPWAY_FINGERPRINT": fingerprint(component),
        **component.environment,
    }
    values = {
        **vars(layout),
        "name": component.name,
        "command": shlex.join(command),
        "environment": ",".join(f'{name}="{value}"' for name, value in environment.items()),
        "autostart": str(not component.calls_api).lower(),
    }
    settings = documents.fill(section, values)
    # supervisord expands %(name)s.
    return {name: value.replace("%", "%%") for name, value in settings.items()}
