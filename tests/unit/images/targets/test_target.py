"""Which target a map stands for, and what images are called there."""

from pathlib import Path

import pytest

from core.handler import UNKNOWN
from images.build.engines import Engine
from images.resource import NotPrebuilt, prebuilt_name, way_in
from images.targets import target as names
from images.targets.containerd import Node
from images.targets.registry import Registry
from images.targets.target import name_in, target_of

_BUILT = "localhost/slipway-trainer:0123456789ab"
_DIGEST = f"sha256:{'1' * 64}"
_REGISTRY = {"kind": "registry", "server": "example.org:5000/team"}


def test_a_map_stands_for_the_target_of_its_kind_which_has_its_own_names(tmp_path: Path) -> None:
    node = {"kind": "containerd", "address": "/run/c.sock", "namespace": "k8s.io"}
    assert target_of(node) == Node("/run/c.sock", "k8s.io")
    for damaged in (b"", bytes(10240)):
        (tmp_path / "image.tar").write_bytes(damaged)
        assert not Node("/run/c.sock", "k8s.io").link(tmp_path), "it is imported from its archive"
    # What has to be there before is no part of it.
    for registry in (_REGISTRY, {**_REGISTRY, "after": "an id"}):
        assert target_of(registry) == Registry("example.org:5000/team")
    name = target_of(_REGISTRY).name(_BUILT)
    assert name == "example.org:5000/team/slipway-trainer:0123456789ab"
    assert names.by_digest(name, _DIGEST) == f"example.org:5000/team/slipway-trainer@{_DIGEST}"
    assert names.repository(f"localhost:5000/a/b:1@{_DIGEST}") == "localhost:5000/a/b"


def test_a_preview_knows_a_name_as_soon_as_what_it_follows_from_is_known() -> None:
    assert name_in({**_REGISTRY, "after": UNKNOWN}, _BUILT) == name_in(_REGISTRY, _BUILT) != UNKNOWN
    assert name_in({"kind": "containerd", "address": UNKNOWN, "namespace": "a"}, _BUILT) == _BUILT
    for unknown in ({**_REGISTRY, "server": UNKNOWN}, UNKNOWN):
        assert name_in(unknown, _BUILT) is UNKNOWN


def test_prebuilt_images_are_used_and_the_rest_is_brought_in_the_other_way() -> None:
    """An image without a source names the setting to add."""
    there = {"kind": "there", "trainer": "example.org/trainer:1"}
    assert prebuilt_name(there, "slipway-trainer") == "example.org/trainer:1"
    assert prebuilt_name(there, "slipway-trainer-cuda") is None
    assert prebuilt_name(_REGISTRY, "slipway-trainer") is None
    for target in ({**there, "otherwise": _REGISTRY}, _REGISTRY):
        assert way_in(target, "slipway-trainer-cuda") == _REGISTRY
    with pytest.raises(NotPrebuilt, match=r"\(trainer\), .*add it as 'trainerCuda' to `images`"):
        way_in(there, "slipway-trainer-cuda")
    with pytest.raises(NotPrebuilt, match="set the job's `image` instead of `build`"):
        way_in(there, "slipway-job-mine")


@pytest.mark.parametrize(
    ("name", "login"),
    [("docker", {"--config", "/login"}), ("buildah", {"--authfile", "/login/config.json"})],
)
def test_an_engine_pushes_with_the_logins_file(name: str, login: set[str]) -> None:
    """HTTP without TLS is for this machine's registries alone."""
    for plain in (True, False):
        pushes = Engine(name, (name,)).push(
            "a", "example.org/a", Path("/login/config.json"), plain=plain
        )
        [push] = [each for each in pushes if "push" in each]
        assert login <= {*push}
        assert ("--tls-verify=false" in push) == (plain and name == "buildah")
