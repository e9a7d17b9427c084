"""When the stand-in calls an object ready, failed, or gone."""

import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from core.context import Context
from scripts.offline.kubernetes_standin import wait
from scripts.offline.kubernetes_standin.client import Client
from scripts.offline.kubernetes_standin.kinds import KINDS, Kind, Reference
from scripts.offline.kubernetes_standin.wait import NotReady

CONFIG_MAP = KINDS["ConfigMap"]
CUSTOM_RESOURCE_DEFINITION = KINDS["CustomResourceDefinition"]
NAMESPACE = KINDS["Namespace"]
PERSISTENT_VOLUME = KINDS["PersistentVolume"]
HELD = {
    "kind": "ConfigMap",
    "metadata": {"name": "n", "uid": "1", "finalizers": ["example.com/hold"]},
}


class FakeClient:
    """A cluster with one object, in the versions in which each look finds it."""

    def __init__(self, *versions: dict[str, Any] | None) -> None:
        self._versions: Iterator[dict[str, Any] | None] = iter(versions)
        self._last: dict[str, Any] | None = None
        self.inside: list[dict[str, Any]] = []

    def get(self, _reference: Reference) -> dict[str, Any] | None:
        self._last = next(self._versions, self._last)
        return self._last

    def list(self, kind: Kind, _namespace: str) -> list[dict[str, Any]]:
        return self.inside if kind == CONFIG_MAP else []


class FakeRow:
    """A row of `pulumi up`."""

    def __init__(self) -> None:
        self.urn = "urn"
        self.cancelled = threading.Event()
        self.shown: list[str] = []

    def status(self, message: str) -> None:
        self.shown.append(message)


def ready(
    kind: Kind, *versions: dict[str, Any] | None, seconds: float = 0.3, row: FakeRow | None = None
) -> dict[str, Any]:
    reference, client = Reference(kind, None, "n"), cast(Client, FakeClient(*versions))
    return wait.until_ready(client, reference, seconds, cast(Context, row or FakeRow()), {})


def gone(
    kind: Kind, *versions: dict[str, Any] | None, seconds: float = 0.3, row: FakeRow | None = None
) -> None:
    client = FakeClient(*versions)
    client.inside = [
        {"metadata": {"name": "inside", "namespace": "n", "finalizers": ["example.com/hold"]}}
    ]
    context = cast(Context, row or FakeRow())
    wait.until_gone(cast(Client, client), Reference(kind, None, "n"), seconds, context)


def conditions(**found: str) -> dict[str, Any]:
    listed = [
        {"type": name, "status": status, "reason": "Conflict", "message": "taken"}
        for name, status in found.items()
    ]
    return {"status": {"conditions": listed}}


@pytest.mark.parametrize(
    ("kind", "missing", "made"),
    [
        (NAMESPACE, {"status": {"phase": "Terminating"}}, {"status": {"phase": "Active"}}),
        (PERSISTENT_VOLUME, {"status": {"phase": "Pending"}}, {"status": {"phase": "Available"}}),
        (PERSISTENT_VOLUME, {}, {"status": {"phase": "Bound"}}),
        (CUSTOM_RESOURCE_DEFINITION, {}, conditions(NamesAccepted="True", Established="True")),
        (
            CUSTOM_RESOURCE_DEFINITION,
            conditions(Established="False"),
            conditions(Established="True"),
        ),
    ],
)
def test_an_object_is_waited_for_until_it_is_ready(
    kind: Kind, missing: dict[str, Any], made: dict[str, Any]
) -> None:
    assert ready(kind, missing, made, seconds=5) == made
    with pytest.raises(NotReady, match=f"^{kind.name} n was not ready within 0.3 s: it is "):
        ready(kind, missing)


def test_an_object_that_never_will_be_ready_ends_the_wait_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(NotReady, match="its names are refused: Conflict: taken") as raised:
        ready(CUSTOM_RESOURCE_DEFINITION, conditions(NamesAccepted="False"), seconds=60)
    assert raised.value.reasons[1:] == ("condition NamesAccepted is False: Conflict: taken",)
    lost = {"status": {"phase": "Failed", "message": "no recycler"}}
    with pytest.raises(NotReady, match="no recycler") as raised:
        ready(PERSISTENT_VOLUME, lost, seconds=60)
    assert raised.value.live == lost
    with pytest.raises(NotReady, match="someone else deleted it"):
        ready(NAMESPACE, None, seconds=60)
    assert time.monotonic() - started < 5


def test_an_object_of_another_kind_is_ready_as_soon_as_it_is_made() -> None:
    assert ready(CONFIG_MAP) == {}


def test_a_deletion_is_waited_for_until_that_object_is_gone() -> None:
    gone(CONFIG_MAP, HELD, None, seconds=5)
    gone(CONFIG_MAP, HELD, {"metadata": {"name": "n", "uid": "2"}}, seconds=5)


def test_a_deletion_that_does_not_end_names_what_holds_the_object() -> None:
    with pytest.raises(TimeoutError, match=r"ConfigMap n still exists 0.3 s after") as raised:
        gone(CONFIG_MAP, HELD)
    assert "ConfigMap n is held by the finalizer example.com/hold" in str(raised.value)

    terminating = {
        "kind": "Namespace",
        "metadata": {"name": "n", "uid": "1"},
        "spec": {"finalizers": ["kubernetes"]},
        **conditions(NamespaceContentRemaining="True"),
    }
    with pytest.raises(TimeoutError, match="the finalizers kubernetes; taken") as raised:
        gone(NAMESPACE, terminating)
    assert "ConfigMap inside is held by the finalizer example.com/hold" in str(raised.value)


def test_waits_end_with_ctrl_c() -> None:
    started = time.monotonic()
    for awaited, kind, version, error in (
        (ready, NAMESPACE, {"status": {"phase": "Terminating"}}, NotReady),
        (gone, CONFIG_MAP, HELD, InterruptedError),
    ):
        row = FakeRow()
        threading.Timer(0.2, row.cancelled.set).start()
        with pytest.raises(error, match="interrupted while waiting for"):
            awaited(kind, version, seconds=60, row=row)
    assert time.monotonic() - started < 5


def test_only_a_wait_that_lasts_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_QUIET_SECONDS", 0.3)
    row = FakeRow()
    ready(NAMESPACE, {}, {"status": {"phase": "Active"}}, seconds=60, row=row)
    assert row.shown == []
    with pytest.raises(NotReady, match=r"within 0\.5 s"):
        ready(NAMESPACE, {}, seconds=0.5, row=row)
    assert row.shown == ["waiting for Namespace n: it is None"]
