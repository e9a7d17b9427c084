"""A machine with kind, a recorded docker, and a recorded minikube, and the cluster behind them."""

import io
import json
import os
import shutil
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from clusters.cli_clusters import cli_cluster
from clusters.embedded import pki
from clusters.embedded.layout import Layout
from clusters.kinds import CLUSTERS
from core import toolchain
from scripts.setup import golang
from scripts.setup.record import Entry
from scripts.setup.steps import Steps
from scripts.setup.tools import MODULES, tools_of
from tests.doubles import recorded
from tests.unit.fake_api import FakeApi, served

IMAGE = "localhost/slipway-trainer:0123456789ab"
READY = {"type": "Ready", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False", "message": "container runtime is down"}


@dataclass
class Listener:
    """A `Context` that keeps what is said."""

    said: list[str] = field(default_factory=list)
    urn: str = "urn:test"
    cancelled: threading.Event = field(default_factory=threading.Event)

    def status(self, message: str) -> None:
        self.said.append(message)

    info = warn = status


@dataclass
class Machine:
    """What a test may look at and change.

    Args:
        directory: Its home, its PATH's programs, and what the recorded programs keep.
        api: The API server that every cluster on it has.
        clusters: What a test has found out about a cluster, for the others of its module.
    """

    directory: Path
    api: FakeApi
    clusters: dict[str, Any]

    def nodes(self, *conditions: dict[str, str]) -> None:
        """Let the cluster have a node for each condition."""
        items = [
            {"metadata": {"name": f"node-{number}"}, "status": {"conditions": [condition]}}
            for number, condition in enumerate(conditions)
        ]
        self.api.says("GET", "/api/v1/nodes", {"kind": "NodeList", "items": items})

    def identity(self, uid: str) -> None:
        """Let it be another cluster."""
        document = {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}}
        self.api.says("GET", "/api/v1/namespaces/kube-system", document)

    def calls(self, program: str) -> list[list[str]]:
        """Return what a recorded program was told."""
        return recorded.calls(self.directory, program)

    def kept(self, program: str) -> dict[str, Any]:
        """Return what a recorded program keeps."""
        return recorded.kept(self.directory, program)

    def keep(self, program: str, state: dict[str, Any]) -> None:
        """Let a recorded program have kept something."""
        recorded.keep(self.directory, program, state)

    def run(self, *command: str) -> str:
        """Run one of its programs as a person would."""
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def without(self, program: str) -> None:
        """Take a tool away: set-up has not found it."""
        record = toolchain.record()
        document = json.loads(record.read_text())
        del document["tools"][program]
        record.write_text(json.dumps(document))

    def archive(self, name: str) -> Path:
        """Return an archive of docker's with an image of that name."""
        path = self.directory / "image.tar"
        manifest = json.dumps([{"Config": "c.json", "RepoTags": [name], "Layers": []}]).encode()
        with tarfile.open(path, "w") as tar:
            member = tarfile.TarInfo("manifest.json")
            member.size = len(manifest)
            tar.addfile(member, io.BytesIO(manifest))
        return path


@cache
def real_kind() -> Path:
    """Return kind itself: the one that set-up found, or built as set-up builds it."""
    on_path = shutil.which("kind")
    if on_path is not None:
        return Path(on_path)
    try:
        return toolchain.path("kind")
    except toolchain.ToolMissing:
        (tool,) = (each for each in tools_of(CLUSTERS["kind"]) if each.name == "kind")
        made = golang.build(MODULES["kind"], [tool], Steps(Console(file=io.StringIO())))["kind"]
        assert isinstance(made, Entry), f"kind can't be built: {made}"
        return Path(made.path)


@dataclass
class Server:
    """The API server of a module's tests: where its certificates are, and what its tests share."""

    directory: Path
    api: FakeApi
    clusters: dict[str, Any] = field(default_factory=dict)


@contextmanager
def api_server(directory: Path) -> Iterator[Server]:
    """Yield an API server that speaks TLS, with what connects to it in `directory`."""
    tls = _certificates(directory)
    with served(FakeApi(), tls) as api:
        (directory / "port").write_text(str(api.port))
        yield Server(directory, api)


def machine(server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return such a machine; whatever looks for programs or writes files meets it alone."""
    kind = real_kind()
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", recorded.PLACE):
        monkeypatch.setenv(variable, str(directory))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    monkeypatch.setenv("PATH", f"{directory}/bin:/usr/bin:/bin")
    # A wait that has to fail fails at its first look.
    monkeypatch.setattr(cli_cluster, "READY_SECONDS", 0)
    recorded.install(directory, "docker", "recorded_docker")
    minikube = recorded.install(directory, "minikube", "recorded_minikube")
    _record(kind=kind, minikube=minikube)
    shutil.copytree(server.directory, directory, dirs_exist_ok=True)
    server.api.answers.clear()
    server.api.asked.clear()
    made = Machine(directory, server.api, server.clusters)
    made.nodes(READY)
    made.identity("the first")
    return made


def _record(**programs: Path) -> None:
    tools = {
        name: {"path": str(path), "version": "1", "origin": "a test"}
        for name, path in programs.items()
    }
    file = toolchain.record()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"tools": tools}))


def _certificates(directory: Path) -> ssl.SSLContext:
    """Write an admin's certificate, and the kubeconfig that kubeadm leaves, which kind reads.

    Returns:
        What the server speaks, with a certificate for this machine.
    """
    layout = Layout(directory.with_name(f"{directory.name}-authority"))
    pki.ensure(layout)
    shutil.copy(layout.certificate("ca"), directory / "ca.crt")
    shutil.copy(layout.certificate("admin"), directory / "client.crt")
    shutil.copy(layout.key("admin"), directory / "client.key")
    (directory / "admin.conf").write_text(pki.kubeconfig(layout, "admin"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(layout.certificate("scheduler"), layout.key("scheduler"))
    return context


def person_has_a_kubeconfig(directory: Path) -> Path:
    """Write a kubeconfig of the person's own, which nobody may touch unasked."""
    file = directory / ".kube" / "config"
    file.parent.mkdir(exist_ok=True)
    file.write_text("# mine\n")
    os.utime(file, (1, 1))
    return file
