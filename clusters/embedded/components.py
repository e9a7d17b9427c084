"""The node's programs, from node.yaml, and their configuration files."""

import hashlib
import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from clusters.embedded import host, pki
from clusters.embedded.layout import API_PORT, DNS_DOMAIN, DNS_SERVICE, PODS, SERVICES, Layout
from core import files, toolchain
from core.manifests import read
from core.paths import CHECKOUT

_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# containerd starts runc and its shim, kube-proxy starts nft, the kubelet starts mount.
_CALLED_BY_NAME = ("runc", "containerd-shim-runc-v2", "nft", "ip")


@dataclass(frozen=True)
class Component:
    """One program that supervisord keeps running.

    Args:
        name: Name of the program and its log.
        command: The program and its arguments.
        files: Contents of its configuration files, keyed by path; written before it starts.
        reads: Credential files that the program reads when it starts; a change restarts it.
        calls_api: True if it is a client of the API server. Such a client starts after the API
            server, because it would retry a failed connection only after some seconds.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    calls_api: bool = False


def components(layout: Layout) -> list[Component]:
    """Return all programs on the node. Their order does not matter; see `Component.calls_api`."""
    values = {
        **vars(layout),
        "api_port": API_PORT,
        "checkout": CHECKOUT,
        "cni_plugins": host.path("cni-plugins"),
        "containerd_root": layout.directory / "containerd",
        "containerd_temp": layout.runtime / "tmp",
        "dns_domain": DNS_DOMAIN,
        "dns_service": DNS_SERVICE,
        "kept_free": host.KEPT_FREE,
        "nsenter": host.path("nsenter"),
        "pause": host.image_reference("pause"),
        "pods": PODS,
        # The resolved path, which does not depend on how this process was started.
        "python": Path(sys.prefix).resolve() / "bin" / "python",
        "runc": host.path("runc"),
        "services": SERVICES,
        "slirp4netns": host.path("slirp4netns") if layout.internet else "",
        "snapshotter": host.snapshotter(layout),
        "system_reserved": host.SYSTEM_RESERVED,
    }
    return [
        _component(layout, name, program, values)
        for name, program in read(Path(__file__).with_name("node.yaml")).items()
        if layout.internet or not program.get("internet", False)
    ]


def rendered(layout: Layout) -> dict[Path, str]:
    """Return the contents of all configuration files, keyed by path; certificates must exist."""
    programs = components(layout)
    texts = {file: text for program in programs for file, text in program.files.items()}
    return texts | {layout.config / "supervisord.conf": supervisord(layout, programs)}


def write(layout: Layout) -> None:
    """Write all configuration files."""
    for directory in (layout.config, layout.cni, layout.logs, layout.volumes, layout.runtime):
        files.private_directory(directory)
    for file, text in rendered(layout).items():
        files.write(file, text, mode=0o600)


def problem(layout: Layout) -> str | None:
    """Return a message that names configuration files with unexpected content, or None."""
    try:
        expected = rendered(layout).items()
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    stale = [file.name for file, text in expected if not file.exists() or file.read_text() != text]
    return f"out of date: {', '.join(stale)}" if stale else None


def search_path() -> str:
    """Return PATH for the components: folders of the tools that they call, then the system's."""
    tools = [str(toolchain.path(name).parent) for name in _CALLED_BY_NAME]
    return ":".join(dict.fromkeys([*tools, *_SYSTEM_PATH]))


def fingerprint(component: Component) -> str:
    """Return a digest of a component's program and all files that it reads when it starts."""
    program = Path(component.command[0]).stat()
    digest = hashlib.sha256(f"{program.st_size} {program.st_mtime_ns}".encode())
    for file, text in component.files.items():
        digest.update(f"{file}\0{text}\0".encode())
    for file in component.reads:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def supervisord(layout: Layout, programs: Iterable[Component]) -> str:
    """Return supervisord's configuration."""
    own = _template("supervisord.conf").substitute(vars(layout))
    return own + "".join(_section(layout, each) for each in programs)


def _section(layout: Layout, component: Component) -> str:
    # An image's import must not keep a small machine's API from answering.
    first = ("nice", "-n", "-10") if component.name in {"etcd", "kube-apiserver"} else ()
    values = {
        "logs": layout.logs,
        "name": component.name,
        "setpriv": shlex.quote(host.path("setpriv")),
        "command": shlex.join((*first, *component.command)),
        "path": search_path(),
        "fingerprint": fingerprint(component),
        "autostart": str(not component.calls_api).lower(),
    }
    # supervisord expands %(name)s.
    escaped = {name: str(value).replace("%", "%%") for name, value in values.items()}
    return _template("supervisord-program.conf").substitute(escaped)


def _component(
    layout: Layout, name: str, program: Mapping[str, Any], values: Mapping[str, object]
) -> Component:
    user = program.get("user")
    values = {**values, "user": user}
    texts = {
        layout.config / file: _text(file, content, values)
        for file, content in program.get("files", {}).items()
    }
    if user is not None:
        texts[layout.config / f"{user}.kubeconfig"] = pki.kubeconfig(layout, user, by_path=True)
    started = _filled({**program, "files": None}, values)
    flags = (
        # The form that Go programs accept: `--leader-elect=false`.
        f"--{flag}={json.dumps(value) if isinstance(value, bool) else value}"
        for flag, value in started["flags"].items()
    )
    return Component(
        name=name,
        command=(*(started.get("command") or [host.path(name)]), *flags),
        files=texts,
        reads=tuple(layout.pki / file for file in started.get("reads", [])),
        calls_api=user is not None,
    )


def _text(file: str, content: Any, values: Mapping[str, object]) -> str:
    """Return a configuration file's text, in the format that its suffix indicates."""
    if file.endswith(".toml"):
        # A JSON string is a TOML string.
        quoted = {name: json.dumps(value, default=str) for name, value in values.items()}
        return str(_filled(content, quoted))
    # JSON is YAML, too.
    return json.dumps(_filled(content, values), indent=2)


def _filled(document: Any, values: Mapping[str, object]) -> Any:
    """Replace each `$name` in a document's strings with its value."""
    if isinstance(document, dict):
        return {key: _filled(value, values) for key, value in document.items()}
    if isinstance(document, list):
        return [_filled(item, values) for item in document]
    return Template(document).substitute(values) if isinstance(document, str) else document


def _template(name: str) -> Template:
    return Template(Path(__file__).with_name(name).read_text())
