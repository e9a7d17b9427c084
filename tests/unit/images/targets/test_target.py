"""Which target a map stands for, and what images are called there."""

import hashlib
import tarfile
from pathlib import Path
from typing import ClassVar

import pytest

from core.handler import UNKNOWN
from images.build import engines
from images.resource import NotPrebuilt, prebuilt_name, way_in
from images.targets import target as names
from images.targets.containerd import Node
from images.targets.registry import Registry
from images.targets.target import name_in, target_of
from images.targets.unpacked import layers

_BUILT = "localhost/slipway-trainer:0123456789ab"
_DIGEST = f"sha256:{'1' * 64}"
_REGISTRY = {"kind": "registry", "server": "example.org:5000/team"}


def test_a_map_stands_for_the_target_of_its_kind() -> None:
    node = {"kind": "containerd", "address": "/run/c.sock", "namespace": "k8s.io"}
    assert target_of(node) == Node("/run/c.sock", "k8s.io")
    # What has to be there before is no part of it.
    for registry in (_REGISTRY, {**_REGISTRY, "after": "an id"}):
        assert target_of(registry) == Registry("example.org:5000/team")


def test_a_registry_has_its_own_name_for_what_is_built_here() -> None:
    name = target_of(_REGISTRY).name(_BUILT)
    assert name == "example.org:5000/team/slipway-trainer:0123456789ab"
    assert names.by_digest(name, _DIGEST) == f"example.org:5000/team/slipway-trainer@{_DIGEST}"


def test_a_preview_knows_a_name_as_soon_as_what_it_follows_from_is_known() -> None:
    assert name_in(_REGISTRY, _BUILT).startswith("example.org")  # type: ignore[union-attr]
    assert name_in({**_REGISTRY, "server": UNKNOWN}, _BUILT) is UNKNOWN
    assert name_in({**_REGISTRY, "after": UNKNOWN}, _BUILT) == name_in(_REGISTRY, _BUILT)
    assert name_in({"kind": "containerd", "address": UNKNOWN, "namespace": "a"}, _BUILT) == _BUILT
    assert name_in(UNKNOWN, _BUILT) is UNKNOWN


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("localhost/a:1", "localhost/a"),
        ("localhost:5000/a", "localhost:5000/a"),
        (f"localhost:5000/a@{_DIGEST}", "localhost:5000/a"),
        (f"example.org/a/b:1@{_DIGEST}", "example.org/a/b"),
    ],
)
def test_a_port_is_no_tag(name: str, repository: str) -> None:
    assert names.repository(name) == repository


class TestThere:
    """Images that somebody has put where nodes find them."""

    TARGET: ClassVar = {"kind": "there", "trainer": "example.org/trainer:1"}

    def test_what_is_named_is_used_as_it_is(self) -> None:
        assert prebuilt_name(self.TARGET, "slipway-trainer") == "example.org/trainer:1"
        assert prebuilt_name(self.TARGET, "slipway-trainer-cuda") is None
        assert prebuilt_name(_REGISTRY, "slipway-trainer") is None

    def test_the_rest_is_brought_in_the_other_way(self) -> None:
        target = {**self.TARGET, "otherwise": _REGISTRY}
        assert way_in(target, "slipway-trainer-cuda") == _REGISTRY
        assert way_in(_REGISTRY, "slipway-trainer-cuda") == _REGISTRY

    def test_an_image_without_a_source_names_the_setting_to_add(self) -> None:
        with pytest.raises(
            NotPrebuilt, match=r"\(trainer\), .*add it as 'trainerCuda' to `images`"
        ):
            way_in(self.TARGET, "slipway-trainer-cuda")
        with pytest.raises(NotPrebuilt, match="set the job's `image` instead of `build`"):
            way_in(self.TARGET, "slipway-job-mine")


def test_an_archive_is_taken_in_by_its_own_format(tmp_path: Path) -> None:
    engine = engines.Engine("buildah", ("buildah",))
    for name, inside in (("docker-archive", "manifest.json"), ("oci-archive", "index.json")):
        archive = tmp_path / f"{name}.tar"
        with tarfile.open(archive, "w") as tar:
            tar.addfile(tarfile.TarInfo(inside))
        assert engine.load(archive)[-1] == f"{name}:{archive}"


def test_layers_are_called_by_all_that_is_below_them() -> None:
    """By the example of the specification: a digest over the names of what was there and is new."""
    first, second = (f"sha256:{each * 64}" for each in "12")
    both = hashlib.sha256(f"{first} {second}".encode()).hexdigest()
    assert layers({"rootfs": {"diff_ids": [first, second]}}) == [first, f"sha256:{both}"]


def test_http_without_tls_is_for_this_machines_registries_alone(tmp_path: Path) -> None:
    engine = engines.Engine("buildah", ("buildah",))
    for plain in (True, False):
        (command,) = engine.push("a", "example.org/a", tmp_path / "config.json", plain=plain)
        assert ("--tls-verify=false" in command) == plain
