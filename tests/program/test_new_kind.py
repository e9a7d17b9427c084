"""A new kind of cluster is a folder that exports one `Kind`, and one line in `CLUSTERS`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from clusters.kinds import CLUSTERS
from core.handler import Handler
from infra import settings
from infra.provider.resources import handlers, image_targets
from scripts.cli import down
from scripts.setup.tools import tools_of
from tests.program.declared import Declare

FOLDER = {
    "__init__.py": """
from clusters.cluster import Kind, OwnCluster
from core.handler import Lazy

KIND = Kind(
    settings=Lazy("made_up_cloud.cluster.Settings"),
    gpus=Lazy("made_up_cloud.cluster.gpus"),
    capacity=Lazy("made_up_cloud.cluster.capacity"),
    declare=Lazy("made_up_cloud.cluster.provision"),
    remains=Lazy("made_up_cloud.cluster.remains"),
    own=OwnCluster(
        type="slipway:clusters:MadeUp",
        handler=Lazy("made_up_cloud.handler.MadeUpHandler"),
        notes="made-up-clusters",
        remove=Lazy("made_up_cloud.handler.remove"),
    ),
    image_targets={"made-up": Lazy("made_up_cloud.handler.Shelf")},
    tools=("nft",),
)
""",
    "cluster.py": """
from decimal import Decimal

import pulumi
import pulumi_kubernetes
from pydantic.dataclasses import dataclass

from clusters.nodes import Capacity
from clusters.cluster import Cluster
from clusters.nodes import GpuPool
from core.fields import CONFIG
from images.resource import helper_images

@dataclass(frozen=True, config=CONFIG)
class Settings:
    name: str
    nodes: int = 1

def gpus(settings):
    return GpuPool(per_node=1, min_nodes=settings.nodes, labels={"pool": "gpu"})

def capacity(settings):
    return Capacity(cpu=Decimal(8), memory=2**35, gpus=1, nodes=settings.nodes)

def provision(settings):
    made = pulumi.CustomResource("slipway:clusters:MadeUp", settings.name, {"kubeconfig": None})
    target = {"kind": "made-up", "shelf": settings.name, "after": made.id}
    images, needs = helper_images(target)
    provider = pulumi_kubernetes.Provider(
        settings.name,
        kubeconfig="a kubeconfig",
        opts=pulumi.ResourceOptions(depends_on=[made, *needs]),
    )
    return Cluster(
        kind="made-up",
        provider=provider,
        kubeconfig=pulumi.Output.secret("a kubeconfig"),
        image_target=target,
        images=images,
        gpus=gpus(settings),
    )

def remains(settings, stack):
    return {"made-up clusters": [f"{settings.name} of {stack}: remove it"]}
""",
    "handler.py": """
from dataclasses import dataclass
from pathlib import Path

from core.handler import Handler
from images.targets.target import Target

class MadeUpHandler(Handler):
    def create(self, inputs, context):
        return "it", {}

def remove(directory: Path) -> None:
    directory.rmdir()

@dataclass(frozen=True)
class Shelf(Target):
    shelf: str
    is_up = True

    def digest(self, name):
        return None

    def load(self, archive, reference, reporter):
        pass

    def tag(self, name, other):
        pass

    def remove(self, name):
        pass
""",
}


@pytest.fixture
def kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The new kind, `made-up`: its folder is written, and its line is in `CLUSTERS`."""
    folder = tmp_path / "made_up_cloud"
    folder.mkdir()
    for name, text in FOLDER.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    kinds: Any = CLUSTERS
    monkeypatch.setitem(kinds, "made-up", import_module("made_up_cloud").KIND)
    yield CLUSTERS["made-up"]
    for name in set(sys.modules) - before:
        if name.startswith("made_up_cloud"):
            del sys.modules[name]


@pytest.mark.usefixtures("kind")
def test_its_line_alone_imports_nothing_of_it_but_its_kind() -> None:
    loaded = {name for name in sys.modules if name.startswith("made_up_cloud")}
    assert loaded == {"made_up_cloud"}


@pytest.mark.usefixtures("kind")
def test_the_whole_program_runs_on_it(declared: Declare) -> None:
    jobs: dict[str, Any] = {"mnist-gloo": {}, "mnist-nccl": {}}
    program = declared("mine", cluster={"kind": "made-up", "nodes": 2}, jobs=jobs)
    cluster = program.one("slipway:clusters:MadeUp", "mine")
    for run in program.of("slipway:jobs:PyTorchJob"):
        assert cluster.urn in program.needs(run)
    images = program.of("slipway:images:Program")
    assert {each.inputs["target"]["kind"] for each in images} == {"made-up"}
    assert program.outputs["cluster"]["kind"] == "made-up"
    assert program.outputs["jobs"].keys() == jobs.keys()


@pytest.mark.usefixtures("kind")
def test_its_settings_are_checked_like_those_of_any_other() -> None:
    with pytest.raises(settings.SettingsError, match=r'node: there is no such key.*"nodes"'):
        settings.parse({"slipway:cluster": '{"kind": "made-up", "node": 2}'}, "mine")
    with pytest.raises(settings.SettingsError, match='did you mean "made-up"'):
        settings.parse({"slipway:cluster": '{"kind": "mad-up"}'}, "mine")


@pytest.mark.usefixtures("kind")
def test_the_provider_serves_its_resource_and_brings_images_in_its_way() -> None:
    assert isinstance(handlers()["slipway:clusters:MadeUp"](), Handler)
    assert "made-up" in image_targets()


def test_set_up_provides_its_tools_and_down_removes_it_and_looks_for_what_is_left(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tools_of(kind)[-1].name == "nft"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = {"kind": "made-up", "name": "mine"}
    directory = kind.own.directory("mine")
    directory.mkdir(parents=True)
    kind.own.remove(directory)
    assert not directory.exists()
    assert down._remains("mine", cluster) == {
        "made-up clusters": ["mine of slipway/mine: remove it"],
        "processes": [],
        "files": [],
    }
