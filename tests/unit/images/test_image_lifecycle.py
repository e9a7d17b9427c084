"""The life of an image on its target, and of a job's own image, which is called by its digest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from core.handler import UNKNOWN, Properties
from images import image_lifecycle
from images.build import uses
from images.build.engines import Engine
from images.build.job import RequirementsSpec
from images.build.program import Program
from images.build.spec import BuildSpec, Spec
from images.build.trainer import IMAGES, MLFLOW, TRAINER, ImageSpec
from images.image_lifecycle import ImageHandler, ImageResource, JobImageHandler, ProgramHandler
from images.targets.target import Target
from tests.unit.images.objects import Listener

_TARGET = {"kind": "containerd", "address": "/run/c.sock", "namespace": "k8s.io"}


@dataclass
class Machine(Target):
    """A cache of built images, and a target of them."""

    archive: Path
    images: dict[str, str] = field(default_factory=dict)
    built: list[str] = field(default_factory=list)
    is_up: bool = True

    def build(self, spec: Spec) -> Path:
        self.built.append(spec.reference)
        self.archive.touch()
        return self.archive

    def digest(self, name: str) -> str | None:
        return self.images.get(name)

    def load(self, _archive: Path, reference: str, _reporter: Any) -> None:
        self.images[reference] = f"sha256:{reference.rpartition(':')[2]}"

    def tag(self, name: str, other: str) -> None:
        self.images[other] = self.images[name]

    def remove(self, name: str) -> None:
        self.images.pop(name, None)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("built") / "archive.tar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(image_lifecycle, "target_of", lambda *_: made)
    for each in (BuildSpec, Program):
        monkeypatch.setattr(each, "build", lambda spec, _context: made.build(spec))
    return made


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "train.py").touch()
    return tmp_path


_OWN: dict[type[ImageResource], Callable[[Path], Properties]] = {
    ImageHandler: lambda context: {"context": str(context), "datasets": []},
    JobImageHandler: lambda context: {"context": str(context), "dockerfile": "Dockerfile"},
    ProgramHandler: lambda context: {
        "path": f"{context}/train.py", "version": "v1", "entrypoint": "/x"
    },
}  # fmt: skip


def _inputs(of: ImageResource, context: Path, **others: Any) -> Properties:
    inputs = {"name": "mine", "target": _TARGET, **_OWN[type(of)](context), **others}
    return {**inputs, "contentHash": of.spec(inputs).content_hash}


@dataclass
class Stack:
    """An image in a stack of its own, in the cache that all stacks share."""

    of: ImageResource
    inputs: Callable[[], Properties]
    urn: str = "urn:image"
    state: Properties = field(default_factory=dict)

    def up(self) -> Properties:
        """Bring it up, and return its outputs."""
        inputs, context = self.inputs(), Listener(urn=self.urn)
        if self.state:
            outputs = self.of.update(self.state, inputs, context)
        else:
            _, outputs = self.of.create(inputs, context)
        self.state = {**inputs, **outputs}
        return outputs

    def changes(self) -> list[str]:
        return [change.path for change in self.of.diff(self.state, self.inputs(), Listener())]

    def preview(self) -> Properties:
        inputs = self.inputs()
        return self.of.preview(self.state, inputs, inputs, Listener())

    def down(self) -> None:
        self.of.delete(self.state, Listener(urn=self.urn))


class TestEitherImage:
    """What holds for every image."""

    @pytest.fixture(params=[kind() for kind in _OWN], ids=["image", "job image", "program"])
    def stack(self, request: pytest.FixtureRequest, machine: Machine, context: Path) -> Stack:
        stack = Stack(request.param, partial(_inputs, request.param, context))
        stack.up()
        return stack

    def test_it_is_built_once_only(self, stack: Stack, machine: Machine) -> None:
        assert stack.changes() == []
        before = dict(stack.state)
        assert {**before, **stack.up()} == before
        assert len(machine.built) == 1
        assert stack.preview() == {key: before[key] for key in stack.of.outputs}

    def test_a_lost_name_comes_back(self, stack: Stack, machine: Machine) -> None:
        names = {*machine.images}
        for lost in (names, *({name} for name in names)):
            for name in lost:
                del machine.images[name]
            assert stack.changes() == ["imageDigest"]
            stack.up()
            assert machine.images.keys() == names

    def test_new_content_replaces_old(self, stack: Stack, machine: Machine, context: Path) -> None:
        before = stack.state["reference"]
        (context / "train.py").write_text("new")
        assert stack.changes() == ["contentHash"]
        known = stack.preview()
        assert known["imageDigest"] is UNKNOWN
        outputs = stack.up()
        assert outputs["reference"] == known["reference"] != before
        assert before not in machine.images
        assert set(outputs.values()) >= machine.images.keys()

    def test_nothing_is_left_of_it_unless_its_node_is_down(
        self, stack: Stack, machine: Machine
    ) -> None:
        machine.is_up = False
        assert stack.changes() == []
        stack.down()
        machine.is_up = True
        stack.down()
        assert machine.images == {}

    def test_files_that_change_during_a_run_are_noticed(self, stack: Stack, context: Path) -> None:
        inputs = stack.inputs()
        (context / "train.py").write_text("new")
        with pytest.raises(RuntimeError, match="changed during this run; run the same command"):
            stack.of.create(inputs, Listener())


def test_a_jobs_image_is_called_by_its_digest_also_when_that_stays(
    machine: Machine, context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new name with the digest of the old one: removing the old must not take the new."""
    monkeypatch.setattr(
        machine, "load", lambda _, name, __: machine.images.update({name: "sha256:1"})
    )
    stack = Stack(JobImageHandler(), partial(_inputs, JobImageHandler(), context))
    before = stack.up()
    assert before["pinned"] == f"localhost/slipway-job-mine@{before['imageDigest']}"
    assert machine.images[before["pinned"]] == before["imageDigest"] == "sha256:1"
    (context / "notes.txt").touch()
    outputs = stack.up()
    assert outputs["pinned"] == before["pinned"]
    assert machine.images.keys() == {outputs["reference"], outputs["pinned"]}


def test_the_trainers_image_is_built_before(
    machine: Machine, context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(TRAINER), "reference", "localhost/slipway-trainer:1")
    of = JobImageHandler()
    of.create(_inputs(of, context, trainer="localhost/slipway-trainer:1"), Listener())
    assert machine.built[0] == "localhost/slipway-trainer:1"
    assert len(machine.built) == 2
    with pytest.raises(RuntimeError, match="changed during this run; run the same command again"):
        of.create(_inputs(of, context, trainer="localhost/slipway-trainer:0"), Listener())
    inputs = {**_inputs(of, context), "trainer": UNKNOWN}
    assert of.preview(None, inputs, inputs, Listener()) == dict.fromkeys(of.outputs, UNKNOWN)


def _announced(of: ImageResource, inputs: Properties, state: Properties | None = None) -> list[str]:
    seen = Listener()
    of.preview(state, inputs, inputs, seen)
    return seen.lines


@pytest.mark.usefixtures("machine")
def test_a_preview_says_what_is_built_new(tmp_path: Path) -> None:
    """And what the last build of packages took, of whatever job; nothing where it is there."""
    (tmp_path / "needs.txt").write_text("einops==0.8.1\n")
    of, spec = JobImageHandler(), RequirementsSpec.from_file(tmp_path / "needs.txt")
    new = {**spec.inputs, "trainer": UNKNOWN, "target": _TARGET}
    on_trainer = {**new, "trainer": "localhost/slipway-trainer:1"}
    assert of.check(new) == []
    what = f"is built from {spec.origin}"
    for state in (None, {**new, "contentHash": "other"}):
        assert _announced(of, new, state) == [f"{what}: {spec.estimate}"]
    assert _announced(of, new, on_trainer) == []
    spec.archive.parent.mkdir(parents=True)
    (spec.archive.parent / "slipway-packages.took").write_text("the last build took 31 s, 330 MB")
    assert _announced(of, new) == [f"{what}: the last build took 31 s, 330 MB"]
    of.spec(on_trainer).archive.touch()
    assert _announced(of, on_trainer) == [f"{what}: already in the cache"]


@pytest.mark.usefixtures("machine")
def test_a_preview_says_what_a_build_takes() -> None:
    of, inputs = ImageHandler(), {**MLFLOW.inputs, "target": _TARGET}
    what = f"is built from {MLFLOW.context}/Dockerfile.mlflow"
    assert _announced(of, inputs) == [f"{what}: {MLFLOW.estimate}"]
    assert _announced(of, inputs, {**inputs, "built": MLFLOW.reference}) == [], "it is as before"
    MLFLOW.archive.parent.mkdir(parents=True)
    MLFLOW.archive.touch()
    assert _announced(of, inputs) == [], "it is built already"


def test_a_preview_refuses_what_cannot_be_built(tmp_path: Path) -> None:
    for key, folder, dockerfile, named in (
        ("context", "/nowhere", "Dockerfile", "/nowhere"),
        ("dockerfile", str(tmp_path), "Nofile", f"{tmp_path}/Nofile"),
        ("dockerfile", str(tmp_path), "../Dockerfile", "'../Dockerfile' is outside the context"),
    ):
        inputs = {"name": "mine", "context": folder, "dockerfile": dockerfile, "contentHash": ""}
        (failure,) = JobImageHandler().check(inputs)
        assert failure.key == key
        assert named in failure.text


@pytest.mark.parametrize("spec", IMAGES, ids=lambda spec: spec.name)
def test_what_a_resource_stands_for_is_the_image_that_was_declared(spec: ImageSpec) -> None:
    assert ImageSpec.from_inputs(spec.inputs) == spec


def test_an_image_that_no_stack_has_leaves_the_cache(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(spec: BuildSpec) -> Path:
        spec.archive.parent.mkdir(parents=True, exist_ok=True)
        spec.archive.touch()
        spec.archive.with_suffix(".unpacked").mkdir(exist_ok=True)
        spec._forget_others(Engine("none", ("true",)))
        return Path(spec.reference)

    monkeypatch.setattr(machine, "build", build)
    listed = tmp_path / "needs.txt"

    def inputs() -> Properties:
        return {**RequirementsSpec.from_file(listed).inputs, "target": _TARGET}

    def up(stack: Stack, version: int) -> Path:
        listed.write_text(f"einops==0.{version}\n")
        stack.up()
        return RequirementsSpec.from_file(listed).archive

    def there(*archives: Path) -> list[bool]:
        kinds = (".tar", ".unpacked")
        return [all(each.with_suffix(kind).exists() for kind in kinds) for each in archives]

    one, two, three = (Stack(JobImageHandler(), inputs, urn) for urn in ("one", "two", "three"))
    shared, other = up(one, 0), up(two, 1)
    assert up(three, 0) == shared
    foreign = [shared.with_name(f"slipway-{each}-0a.tar") for each in ("job-x", "trainer")]
    for each in foreign:
        each.touch()
    third = up(one, 2)
    assert there(shared, other, third) == [True] * 3, "another stack has the first one still"
    three.down()
    assert there(shared) == [True], "that stack may come up again"
    fourth = up(two, 3)
    assert there(shared, other, third, fourth) == [False, True, True, True], "until it is replaced"
    fifth = up(three, 4)
    assert there(other, third, fourth, fifth) == [False, True, True, True]
    assert not shared.with_suffix(".unpacked").exists()
    assert all(each.exists() for each in foreign), "nobody noted that they are unused"
    monkeypatch.setattr(machine, "build", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        up(one, 5)
    stays = [each.parent.name for each in uses.place("").glob("*/*") if each.read_text() == "one"]
    assert stays == [third.stem], "it uses what it has, and nothing that was not built"
