"""The trainer's images are declared when a job needs them, and not before."""

from collections.abc import Mapping
from typing import Any

import pytest

from images import resource
from images.build.trainer import ImageSpec
from images.resource import TrainerImages

_TARGET = {"kind": "registry", "server": "example.org"}


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, Any]]]:
    made: list[tuple[str, Mapping[str, Any]]] = []

    class Image:
        def __init__(self, spec: ImageSpec, *, target: Mapping[str, Any]) -> None:
            made.append((spec.name, target))
            self.reference, self.built = f"a pod's {spec.name}", f"localhost/{spec.name}"

    monkeypatch.setattr(resource, "Image", Image)
    return made


def test_only_jobs_that_need_it_declare_it(declared: list[tuple[str, Mapping[str, Any]]]) -> None:
    images = TrainerImages(_TARGET)
    assert declared == []
    for _ in range(2):
        assert images.provide(images.spec()).reference == "a pod's slipway-trainer"
    assert declared == [("slipway-trainer", _TARGET)]
    for gpus, name in ((False, "slipway-trainer-cifar"), (True, "slipway-trainer-cuda")):
        assert images.provide(images.spec(gpus=gpus, cifar=True)).base == f"localhost/{name}"
        assert declared[-1][0] == name


def test_a_prebuilt_image_keeps_its_name(declared: list[tuple[str, Mapping[str, Any]]]) -> None:
    target = {"kind": "there", "trainerCuda": "example.org/cuda:1", "otherwise": _TARGET}
    images = TrainerImages(target)
    cuda = images.provide(images.spec(gpus=True))
    assert cuda.reference == cuda.base == "example.org/cuda:1"
    assert images.provide(images.spec()).reference == "a pod's slipway-trainer"
    assert declared == [("slipway-trainer", target)]
    named = TrainerImages({"kind": "there", "trainer": "example.org/trainer:1"})
    assert named.provide(named.spec(cifar=True)).reference == "example.org/trainer:1"
    assert named.provide(named.spec()).reference == "example.org/trainer:1"
