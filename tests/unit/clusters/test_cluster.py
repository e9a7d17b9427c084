"""What a kind of cluster promises, and the packages that only some kinds need."""

import subprocess
import sys
from pathlib import Path

import pulumi
import pytest

from clusters.cluster import Kind
from core.handler import Lazy
from core.paths import extra_dir

MADE_UP = "slipway_made_up_kind"


@pytest.fixture
def kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """A kind whose packages are an extra's, of which none is installed yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, MADE_UP, raising=False)
    lazy = Lazy(f"{MADE_UP}.provision")
    return Kind(settings=lazy, declare=lazy, remains=lazy, extra="azure")


def test_the_packages_of_its_extra_can_be_imported(kind: Kind) -> None:
    extra_dir("azure").mkdir(parents=True)
    (extra_dir("azure") / f"{MADE_UP}.py").write_text("provision = str.upper")
    assert str(kind.provision("a")) == "A"


def test_a_missing_extra_names_its_command(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi, "get_stack", lambda: "mine")
    with pytest.raises(pulumi.RunError) as refusal:
        kind.provision(None)
    assert str(refusal.value) == (
        "The Python package slipway_made_up_kind is not installed. "
        "Run `make setup STACK=mine`, then try again."
    )


@pytest.mark.parametrize("name", ["aks", "azure-stack"])
def test_settings_are_read_without_azures_sdk(name: str, root: Path) -> None:
    program = (
        f"import sys; from clusters.kinds import CLUSTERS; CLUSTERS[{name!r}].settings.load(); "
        "sys.exit(any(each.startswith('pulumi_azure') for each in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)
