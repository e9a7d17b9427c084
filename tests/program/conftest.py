"""Fixtures that the tests of whole programs share."""

import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from decimal import Decimal
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.cluster import Kind
from clusters.kinds import CLUSTERS
from clusters.kubeconfig import cluster as existing
from clusters.kubeconfig.choice import Choice
from clusters.kubeconfig.found import Found
from clusters.nodes import Capacity
from core.manifests import Manifest, read
from tests.doubles import recorded_kubelogin
from tests.program.declared import Declare, Program, _Mocks, declare, template


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
        patch.setattr(
            "clusters.operator.training_operator.read", lambda path: deepcopy(_parsed(path))
        )
        yield patch


@cache
def _parsed(path: Path) -> Manifest:
    manifest = read(path)
    for version in manifest.get("spec", {}).get("versions", []):
        version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    return manifest


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Run the program on a stack's settings, on the embedded cluster unless one is given."""

    def run(stack: str = "dev", **settings: Any) -> Program:
        return declare({"cluster": {"kind": "embedded"}, **settings}, monkeypatch, stack=stack)

    return run


@pytest.fixture
def changed(declared: Declare) -> Declare:
    """Run the program with a template's settings of the cluster, some of them changed.

    None leaves a setting out.
    """

    def run(stack: str, jobs: Any = None, **changes: Any) -> Program:
        settings = template(stack)
        cluster = settings["cluster"] | changes
        there = {key: each for key, each in cluster.items() if each is not None}
        return declared(stack, cluster=there, jobs=settings["jobs"] if jobs is None else jobs)

    return run


@pytest.fixture
def there_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[Found], None]:
    """Let an existing cluster of any kubeconfig have what a test says."""
    choice = Choice("work", "https://10.30.0.4:6443", "config", "a kubeconfig")
    monkeypatch.setattr(existing, "choose", lambda *_: choice)
    monkeypatch.setattr(existing, "stack", lambda: "slipway/mine")
    return lambda there: monkeypatch.setattr(existing, "look", lambda *_: there)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Kind:
    """The new kind, `pretended`: its folder is there, and its line is in `CLUSTERS`."""
    for name in [each for each in sys.modules if "program.pretended" in each]:
        monkeypatch.delitem(sys.modules, name)
    kinds: Any = CLUSTERS
    monkeypatch.setitem(kinds, "pretended", import_module("tests.program.pretended").KIND)
    return CLUSTERS["pretended"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of what the program has the engine make."""
    types: list[str] = []
    monkeypatch.setattr(_Mocks, "new_resource", lambda _self, args: types.append(args.typ))
    return types


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages and warnings that the program logs for the user."""
    texts: list[str] = []
    for level in ("info", "warn"):
        monkeypatch.setattr(pulumi.log, level, lambda text, *_, **__: texts.append(text))
    return texts
