"""The programs that make up the node, as node.yaml has them. Nothing here touches the machine."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from clusters.embedded import credentials, documents, host
from clusters.embedded.layout import API_PORT, DNS_DOMAIN, DNS_SERVICE, PODS, SERVICES, Layout
from core.paths import CHECKOUT

_DISABLED_PLUGINS = (
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.nri.v1.nri",
)
"""Found only where their file system is, or they keep files outside the cluster's directories."""


@dataclass(frozen=True)
class Component:
    """One program that is kept running.

    Args:
        name: What it and its log are called.
        command: The program and its arguments.
        files: Configuration that it reads, by path; written before it starts.
        reads: Credentials that it reads when it starts: it is started again when they change.
        environment: Variables of its own, beside those that all components share.
        calls_api: Whether it is a client of the API server, which is then started before it: one
            that finds none tries again after seconds.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[Path, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    calls_api: bool = False


def components(layout: Layout) -> list[Component]:
    """Return every program of the node, in no order but that of `Component.calls_api`."""
    values = {
        **vars(layout),
        "api_port": API_PORT,
        "checkout": CHECKOUT,
        "cni_plugins": host.path("cni-plugins"),
        "containerd_root": layout.directory / "containerd",
        "containerd_temp": layout.runtime / "tmp",
        "disabled_plugins": _DISABLED_PLUGINS,
        "dns_domain": DNS_DOMAIN,
        "dns_service": DNS_SERVICE,
        "kept_free": host.KEPT_FREE,
        "pause": host.image_reference("pause"),
        "pods": PODS,
        # By its real place: the same one however this process was started.
        "python": Path(sys.prefix).resolve() / "bin" / "python",
        "runc": host.path("runc"),
        "services": SERVICES,
        "snapshotter": host.snapshotter(layout),
        "system_reserved": host.SYSTEM_RESERVED,
    }
    (programs,) = documents.load("node.yaml")
    return [_component(name, program, values, layout) for name, program in programs.items()]


def _component(
    name: str, program: Mapping[str, Any], values: Mapping[str, object], layout: Layout
) -> Component:
    user = program.get("user")
    values = {**values, "user": user}
    files = {
        layout.config / file: _text(file, content, values)
        for file, content in program.get("files", {}).items()
    }
    if user is not None:
        files[layout.config / f"{user}.kubeconfig"] = credentials.by_reference(layout, user)
    started = documents.fill({**program, "files": None}, values)
    command = started["command"] if "command" in started else [host.path(name)]
    return Component(
        name=name,
        command=(*command, *_flags(started["flags"])),
        files=files,
        reads=tuple(layout.pki / file for file in started.get("reads", [])),
        environment=started.get("environment", {}),
        calls_api=user is not None,
    )


def _flags(values: Mapping[str, object]) -> list[str]:
    """Return command line flags as Go programs read them: `--leader-elect=false`."""
    written = {
        name: json.dumps(value) if isinstance(value, bool) else value
        for name, value in values.items()
    }
    return [f"--{name}={value}" for name, value in written.items()]


def _text(file: str, content: Any, values: Mapping[str, object]) -> str:
    """Return a configuration file in the form that its program reads."""
    if file.endswith(".toml"):
        # A JSON string is a TOML string.
        quoted = {name: json.dumps(value, default=str) for name, value in values.items()}
        return str(documents.fill(content, quoted))
    document = documents.fill(content, values)
    if file.endswith(".yaml"):
        return yaml.safe_dump(document)
    return json.dumps(document, indent=2)
