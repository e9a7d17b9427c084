"""A job's own Dockerfile, built for real, on a real containerd as a kubelet asks it."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from images.containerd import Node, NodeError
from images.job_handler import JobImageHandler
from images.spec import TRAINER
from images.steps import BuildFailed
from infra import toolchain
from infra.paths import cache_dir
from tests.unit.images_objects import Listener

_START_LIMIT = 30.0
_OF = JobImageHandler()


@dataclass(frozen=True)
class Containerd:
    """A containerd of the test's own."""

    address: str

    @property
    def target(self) -> dict[str, str]:
        return {"kind": "containerd", "address": self.address, "namespace": "k8s.io"}

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
    address, log = tmp_path / "c.sock", tmp_path / "containerd.log"
    snapshots = 'plugins."io.containerd.grpc.v1.cri"'
    config = tmp_path / "containerd.toml"
    config.write_text(
        f"version = 2\nroot = {json.dumps(str(tmp_path / 'root'))}\n"
        f"state = {json.dumps(str(tmp_path / 'state'))}\n"
        f"[grpc]\naddress = {json.dumps(str(address))}\n"
        f"[{snapshots}]\ndisable_tcp_service = true\n"
    )
    with log.open("wb") as output:
        process = subprocess.Popen(
            [toolchain.path("containerd"), "--config", config], stdout=output, stderr=output
        )
    try:
        _until_up(Node(str(address), "k8s.io"), log)
        yield Containerd(str(address))
    finally:
        process.terminate()
        process.wait(_START_LIMIT)
        shutil.rmtree(tmp_path / "root")  # gigabytes, which pytest would keep


def _until_up(node: Node, log: Path) -> None:
    began = time.monotonic()
    while time.monotonic() - began < _START_LIMIT:
        with suppress(NodeError):
            if node.is_up and node.digest("none") is None:
                return
        time.sleep(0.2)
    pytest.fail(f"containerd does not answer: {log.read_text()[-2000:]}", pytrace=False)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, with the tools and the trainer's image of the machine's."""
    real, trainer = cache_dir(), TRAINER.archive
    own = tmp_path / "cache" / "slipway"
    (own / "images").mkdir(parents=True)
    shutil.copy(real / "toolchain.json", own)
    (own / "datasets").symlink_to(real / "datasets")
    (own / "images" / trainer.name).symlink_to(trainer)
    monkeypatch.setenv("XDG_CACHE_HOME", str(own.parent))
    yield own
    shutil.rmtree(own / "images")


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    folder.mkdir()
    return folder


def _inputs(context: Path, containerd: Containerd, trainer: str | None = None) -> dict[str, Any]:
    inputs = {
        "name": "mine",
        "context": str(context),
        "dockerfile": "Dockerfile",
        "target": containerd.target,
    }
    if trainer is not None:
        inputs["trainer"] = trainer
    assert _OF.check(inputs) == []
    return {**inputs, "contentHash": _OF.spec(inputs).content_hash}


@pytest.mark.usefixtures("cache")
def test_a_pod_can_run_it_by_its_digest(context: Path, containerd: Containerd) -> None:
    (context / "Dockerfile").write_text("FROM scratch\nCOPY train.py /\n")
    (context / "train.py").write_text("print()\n")
    inputs = _inputs(context, containerd)
    _, outputs = _OF.create(inputs, Listener())
    assert outputs["pinned"] == f"localhost/slipway-job-mine@{outputs['imageDigest']}"
    for name in (outputs["reference"], outputs["pinned"]):
        assert outputs["pinned"].encode() in _soon_known(containerd, name)
    state = {**inputs, **outputs}
    assert _OF.diff("", state, inputs) == []
    _OF.delete("", state, Listener())
    assert Node.of(containerd.target).digest(outputs["pinned"]) is None


def _soon_known(containerd: Containerd, name: str) -> bytes:
    """The CRI hears of an image that was imported from containerd's events."""
    began = time.monotonic()
    while time.monotonic() - began < 10:
        if answer := containerd.image_status(name):
            return answer
        time.sleep(0.1)
    return b""


def test_it_can_start_from_the_trainers_image(
    context: Path, containerd: Containerd, cache: Path
) -> None:
    """Nothing is pulled; and the image of older content is forgotten."""
    if not TRAINER.archive.exists():
        pytest.fail(f"{TRAINER.archive} is missing: `make up` builds it", pytrace=False)
    (context / "Dockerfile").write_text(
        "ARG TRAINER\nFROM ${TRAINER}\nCOPY train.py /opt/job/train.py\n"
        "RUN python3 -c 'import torch, slipway_trainer'\n"
    )
    images = []
    for text in ("print(1)\n", "print(2)\n"):
        (context / "train.py").write_text(text)
        _, outputs = _OF.create(_inputs(context, containerd, TRAINER.reference), Listener())
        images.append(outputs["pinned"])
    assert images[0] != images[1]
    assert len(list((cache / "images").glob("slipway-job-mine-*.tar"))) == 1
    assert TRAINER.archive.exists()


@pytest.mark.usefixtures("cache")
def test_a_base_that_cannot_be_pulled_says_what_to_do(
    context: Path, containerd: Containerd
) -> None:
    (context / "Dockerfile").write_text("FROM base.invalid/nothing:1\n")
    with pytest.raises(BuildFailed, match=r"FROM base\.invalid/nothing:1 can't be pulled") as error:
        _OF.create(_inputs(context, containerd), Listener())
    assert "FROM ${TRAINER}" in str(error.value)
