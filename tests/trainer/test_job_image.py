"""A job's own Dockerfile, built for real, on a real containerd as a kubelet asks it."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from core import toolchain
from core.paths import cache_dir
from core.process import CommandFailed
from images.build import debian, job
from images.build.job import JobImageSpec
from images.build.runner import BuildFailed
from images.build.trainer import ImageSpec
from images.image_lifecycle import JobImageHandler
from images.targets.containerd import Node
from images.targets.target import target_of
from tests.engine.awaiting import await_true
from tests.unit.images.objects import Listener

_START_LIMIT = 30.0
_OF = JobImageHandler()


@dataclass(frozen=True)
class Containerd:
    """A containerd of the test's own."""

    address: str

    @property
    def target(self) -> dict[str, str]:
        return {"kind": "containerd", "address": self.address, "namespace": "k8s.io"}

    @property
    def node(self) -> Node:
        return Node(self.address, "k8s.io")

    def answers(self) -> bool:
        with suppress(CommandFailed):
            return self.node.is_up and self.node.digest("none") is None
        return False

    def image_status(self, reference: str) -> bytes:
        """Ask as the kubelet does before it pulls; empty when the image isn't there.

        The request is `ImageStatusRequest{image: ImageSpec{image: reference}}` of the CRI's
        runtime.v1, the answer's first field the image.
        """
        name = reference.encode()
        assert len(name) < 126
        spec = b"\x0a" + bytes([len(name)]) + name
        with grpc.insecure_channel(f"unix://{self.address}") as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/runtime.v1.ImageService/ImageStatus"
            )
            return call(b"\x0a" + bytes([len(spec)]) + spec, timeout=10)


@pytest.fixture
def containerd(tmp_path: Path) -> Iterator[Containerd]:
    with _running(tmp_path) as running:
        yield running


@contextmanager
def _running(directory: Path) -> Iterator[Containerd]:
    directory.mkdir(exist_ok=True)
    config, log = directory / "containerd.toml", directory / "containerd.log"
    made = Containerd(str(directory / "c.sock"))
    config.write_text(
        f"version = 2\nroot = {json.dumps(str(directory / 'root'))}\n"
        f"state = {json.dumps(str(directory / 'state'))}\n"
        f"[grpc]\naddress = {json.dumps(made.address)}\n"
        '[plugins."io.containerd.grpc.v1.cri"]\ndisable_tcp_service = true\n'
    )
    with log.open("wb") as output:
        process = subprocess.Popen(
            [toolchain.path("containerd"), "--config", config], stdout=output, stderr=output
        )
    try:
        await_true(made.answers, _START_LIMIT, log.read_text)
        yield made
    finally:
        process.terminate()
        process.wait(_START_LIMIT)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with the machine's tools."""
    own = tmp_path / "cache" / "slipway"
    own.mkdir(parents=True)
    shutil.copy(cache_dir() / "toolchain.json", own)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own.parent))
    return own


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    folder.mkdir()
    return folder


def _inputs(context: Path, containerd: Containerd) -> dict[str, Any]:
    inputs = {
        "name": "mine",
        "context": str(context),
        "dockerfile": "Dockerfile",
        "target": containerd.target,
    }
    assert _OF.check(inputs) == []
    return {**inputs, "contentHash": _OF.spec(inputs).content_hash}


@pytest.mark.usefixtures("cache")
def test_a_pod_can_run_it_by_its_digest(context: Path, containerd: Containerd) -> None:
    (context / "Dockerfile").write_text("FROM scratch\nCOPY train.py /\n")
    (context / "train.py").write_text("print()\n")
    inputs = _inputs(context, containerd)
    _, outputs = _OF.create(inputs, Listener())
    assert outputs["pinned"] == f"localhost/slipway-job-mine@{outputs['imageDigest']}"
    names = (outputs["reference"], outputs["pinned"])
    pinned = outputs["pinned"].encode()
    # The CRI hears of an image that was imported from containerd's events.
    await_true(lambda: all(pinned in containerd.image_status(name) for name in names))
    state = {**inputs, **outputs}
    assert _OF.diff(state, inputs, Listener()) == []
    _OF.delete(state, Listener())
    assert target_of(containerd.target).digest(outputs["pinned"]) is None


def _created(context: Path, containerd: Containerd) -> dict[str, Any]:
    _, outputs = _OF.create(_inputs(context, containerd), Listener())
    return outputs


@pytest.fixture
def unpacked(context: Path, cache: Path, containerd: Containerd) -> Path:
    """Where the layers of an image are kept that `containerd` has unpacked."""
    (context / "Dockerfile").write_text("FROM scratch\nCOPY train.py /\nCOPY data /data\n")
    (context / "train.py").touch(mode=0o755)
    (context / "data" / "raw").mkdir(parents=True, mode=0o750)
    (context / "data" / "raw" / "digits").write_text("0123456789\n")
    _created(context, containerd)
    (kept,) = (cache / "images").glob("*.unpacked")
    return kept


def test_the_next_containerd_links_what_was_unpacked_once_and_loses_nothing_with_the_first(
    context: Path, cache: Path, containerd: Containerd, unpacked: Path, tmp_path: Path
) -> None:
    (archive,) = (cache / "images").glob("slipway-job-mine-*.tar")
    archive.write_text("not needed")
    following = tmp_path / "following"
    with _running(following) as other:
        assert _created(context, other) == _created(context, containerd)
    (linked,) = (following / "root").rglob("digits")
    (own,) = (tmp_path / "root").rglob("digits")
    assert linked.samefile(own)
    assert linked.parent.stat().st_mode & 0o777 == 0o750
    for cluster in (following, tmp_path):
        shutil.rmtree(cluster / "root")
    (kept,) = unpacked.rglob("digits")
    assert (kept.read_text(), kept.stat().st_nlink) == ("0123456789\n", 1)


def test_where_nothing_can_be_linked_an_image_is_unpacked_again(
    context: Path, unpacked: Path, tmp_path: Path
) -> None:
    shutil.rmtree(unpacked / "1")
    following = tmp_path / "following"
    with _running(following) as other:
        assert not other.node.link(unpacked)
        # Layers that were left to the garbage collector would go while the next import uses them.
        assert other.node._snapshots("list").splitlines()[1:] == []
        _created(context, other)
    assert [path.read_text() for path in (following / "root").rglob("digits")] == ["0123456789\n"]


def test_it_can_start_from_the_trainers_image(
    context: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is pulled, also when the builder has forgotten it; and older content goes."""
    # The real one takes a minute to take in and write.
    trainer = ImageSpec("slipway-small", tmp_path / "trainer")
    trainer.context.mkdir()
    (trainer.context / "Dockerfile").write_text("FROM scratch\nCOPY model.py /\n")
    (trainer.context / "model.py").touch()
    monkeypatch.setattr(debian, "base_image", lambda *_: "scratch")
    monkeypatch.setattr(job, "trainer_of", lambda _reference: trainer)
    trainer.build(Listener())
    shutil.rmtree(cache / "images" / "storage")
    (context / "Dockerfile").write_text("ARG TRAINER\nFROM ${TRAINER}\nCOPY train.py /\n")
    archives = []
    for text in ("print(1)\n", "print(2)\n"):
        (context / "train.py").write_text(text)
        spec = JobImageSpec("mine", context, "Dockerfile", trainer.reference)
        archives.append(spec.build(Listener()))
    first, second = map(_layers, (trainer.archive, archives[1]))
    assert first == second[:-1]
    assert list((cache / "images").glob("slipway-job-mine-*.tar")) == archives[1:]


def _layers(archive: Path) -> list[str]:
    """The digest of each layer of an archive's image, before it was compressed."""
    with tarfile.open(archive) as tar:

        def read(name: str) -> Any:
            file = tar.extractfile(name.replace("sha256:", "blobs/sha256/"))
            assert file is not None
            return json.load(file)

        manifest = read(read("index.json")["manifests"][0]["digest"])
        layers: list[str] = read(manifest["config"]["digest"])["rootfs"]["diff_ids"]
    return layers


@pytest.mark.usefixtures("cache")
def test_a_base_that_cannot_be_pulled_is_named_in_the_engines_words(
    context: Path, containerd: Containerd
) -> None:
    (context / "Dockerfile").write_text("FROM base.invalid/nothing:1\n")
    with pytest.raises(BuildFailed, match=r"base\.invalid/nothing:1"):
        _OF.create(_inputs(context, containerd), Listener())
