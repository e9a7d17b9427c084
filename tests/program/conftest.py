"""What the tests of whole programs share."""

from collections.abc import Iterator
from copy import deepcopy
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from clusters.nodes import Capacity
from core.manifests import Manifest, read
from tests.doubles import recorded_kubelogin


@pytest.fixture(scope="module", autouse=True)
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """Let the embedded cluster be on a machine with 2 cores and 6 GiB, whatever this one has."""
    room = Capacity(Decimal("1.94"), 5 * 2**30, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusters.embedded.cluster.capacity", lambda _settings: room)
        programs = tmp_path_factory.mktemp("programs")
        recorded_kubelogin.install(programs)
        patch.setenv("PATH", str(programs), prepend=":")
        # The committed stacks are declared with their placeholders, and nobody logs in.
        patch.setattr("clusters.azure.checks.before_update", lambda *_, **__: None)
        # It would be parsed and sent for each of hundreds of programs.
        patch.setattr("clusters.operator.training_operator.read", _without_schemas)
        yield patch


@cache
def _parsed(path: Path) -> Manifest:
    manifest = read(path)
    for version in manifest.get("spec", {}).get("versions", []):
        version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    return manifest


def _without_schemas(path: Path) -> Manifest:
    return deepcopy(_parsed(path))
