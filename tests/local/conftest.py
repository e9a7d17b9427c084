"""The machine that clusters of kind and minikube are made on."""

import io
import json
import shutil
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
from tests.local.machine import READY, Machine
from tests.unit.fake_api import FakeApi, served


@pytest.fixture(scope="session")
def real_kind() -> Path:
    """The real kind: the one that set-up found, or built as set-up builds it."""
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """An API server that speaks TLS, and a directory with what connects to it."""
    directory = tmp_path_factory.mktemp("server")
    with served(FakeApi(), _certificates(directory)) as api:
        (directory / "port").write_text(str(api.port))
        yield Machine(directory, api)


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


@pytest.fixture
def here(
    server: Machine, real_kind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """That machine; whatever looks for programs or writes files meets it alone."""
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", recorded.PLACE):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    # A wait that has to fail fails at its first look.
    monkeypatch.setattr(cli_cluster, "READY_SECONDS", 0)
    recorded.install(tmp_path, "docker", "recorded_docker")
    minikube = recorded.install(tmp_path, "minikube", "recorded_minikube")
    tools = {
        name: {"path": str(path), "version": "1", "origin": "a test"}
        for name, path in {"kind": real_kind, "minikube": minikube}.items()
    }
    file = toolchain.record()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"tools": tools}))
    shutil.copytree(server.directory, tmp_path, dirs_exist_ok=True)
    server.api.answers.clear()
    server.api.asked.clear()
    made = replace(server, directory=tmp_path)
    made.nodes(READY)
    made.identity("the first")
    return made
