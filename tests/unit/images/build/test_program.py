"""Programs of the toolchain as images, brought in through a cluster's target."""

import json
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pulumi
import pytest

from core import toolchain
from core.context import Context
from core.handler import UNKNOWN, Properties
from core.toolchain import Tool
from images import image_lifecycle, resource
from images.build.program import Program
from images.image_lifecycle import ProgramHandler
from tests.unit.images.objects import Listener

_OF = ProgramHandler()
_TARGET = {"kind": "registry", "server": "example.org/team"}


@dataclass
class Shelf:
    """A target that keeps what it is given."""

    images: dict[str, list[str]] = field(default_factory=dict)
    is_up: bool = True

    def name(self, reference: str) -> str:
        return reference.replace("localhost", "example.org/team")

    def digest(self, name: str) -> str | None:
        return "sha256:1" if name in self.images else None

    def load(self, archive: Path, reference: str, _reporter: Context) -> None:
        with tarfile.open(archive) as tar:
            manifest = tar.extractfile("manifest.json")
            assert manifest is not None
            self.images[self.name(reference)] = json.load(manifest)[0]["RepoTags"]

    def remove(self, name: str) -> None:
        del self.images[name]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    made = Shelf()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image_lifecycle, "target_of", lambda _target, _kinds: made)
    return made


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    path = tmp_path / "tcp-wait"
    path.write_bytes(b"\x7fELF")
    return Tool("tcp-wait", path, "v1")


def _inputs(tool: Tool) -> Properties:
    return {**Program.from_tool(tool, "/tcp-wait").inputs, "target": _TARGET}


def test_it_is_brought_in_without_its_archive(shelf: Shelf, tool: Tool, tmp_path: Path) -> None:
    _, outputs = _OF.create(_inputs(tool), Listener())
    assert shelf.images == {outputs["reference"]: [outputs["built"]]}
    assert outputs["built"].startswith("localhost/slipway-tcp-wait:v1-")
    assert list((tmp_path / "cache" / "slipway" / "images").glob("*.tar")) == []


def test_it_is_unchanged_until_the_program_changes(shelf: Shelf, tool: Tool) -> None:
    before = _inputs(tool)
    state = {**before, **_OF.create(before, Listener())[1]}
    assert _OF.diff(state, _inputs(tool), Listener()) == []
    tool.path.write_bytes(b"\x7fELF, another")
    inputs = _inputs(tool)
    assert [each.path for each in _OF.diff(state, inputs, Listener())] == ["contentHash"]
    outputs = _OF.update(state, inputs, Listener())
    assert list(shelf.images) == [outputs["reference"]] != [state["reference"]]


def test_a_preview_names_it_before_its_registry_is_there(shelf: Shelf, tool: Tool) -> None:
    inputs = {**_inputs(tool), "target": {**_TARGET, "after": UNKNOWN}}
    known = _OF.preview(None, inputs, inputs, Listener())
    assert known["reference"] == shelf.name(Program.from_tool(tool, "/tcp-wait").reference)
    assert known["imageDigest"] is UNKNOWN


@pytest.fixture
def declared(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the resources that a cluster's kind declares for the operator."""
    names: list[str] = []
    monkeypatch.setattr(toolchain, "tool", lambda name: replace(tool, name=name))
    monkeypatch.setattr(
        pulumi.CustomResource, "__init__", lambda _self, _type, name, *_: names.append(name)
    )
    return names


def test_names_of_helper_images_are_known_at_once(declared: list[str]) -> None:
    images, needs = resource.helper_images(_TARGET)
    assert images.keys() == {"training-operator", "tcp-wait"}
    assert all(each.startswith("example.org/team/slipway-") for each in images.values())
    assert declared == ["training-operator", "tcp-wait"]
    assert len(needs) == 2


def test_helper_images_that_are_there_are_not_brought_in(declared: list[str]) -> None:
    there = {"kind": "there", "trainingOperator": "example.org/operator:1"}
    images, _ = resource.helper_images({**there, "otherwise": _TARGET})
    assert images["training-operator"] == "example.org/operator:1"
    assert declared == ["tcp-wait"]
