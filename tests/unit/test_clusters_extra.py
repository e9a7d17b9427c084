"""Packages that only one kind of cluster needs lie apart, and are found when it is provisioned."""

import sys
from pathlib import Path

import pulumi
import pytest

from clusters.cluster import ClusterKind
from core.paths import extra_dir

KIND = ClusterKind("slipway_made_up_kind", extra="azure")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, KIND.module, raising=False)


def test_the_packages_of_its_extra_can_be_imported() -> None:
    extra_dir("azure").mkdir(parents=True)
    (extra_dir("azure") / f"{KIND.module}.py").write_text("provision = str.upper")
    assert str(KIND.provision("a")) == "A"


def test_without_them_the_command_that_installs_them_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulumi, "get_stack", lambda: "mine")
    with pytest.raises(pulumi.RunError) as refusal:
        ClusterKind("slipway_made_up_kind", extra="azure").provision(None)
    assert str(refusal.value) == (
        "The Python package slipway_made_up_kind is not installed. "
        "Run `make setup STACK=mine`, then try again."
    )
