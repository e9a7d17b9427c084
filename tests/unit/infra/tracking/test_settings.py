"""The settings of `slipway:tracking`, as part of a stack's."""

import json
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pytest

from clusters.nodes import Capacity
from infra.settings import SettingsError, StackSettings, parse

ROOM = Capacity(Decimal("1.94"), 5 * 2**30, 0, 1)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.embedded.cluster.capacity", lambda _settings: ROOM)


def parsed(tracking: Any = None, secrets: Collection[str] = ()) -> StackSettings:
    section = {} if tracking is None else {"slipway:tracking": json.dumps(tracking)}
    return parse({"slipway:cluster": '{"kind": "embedded"}', **section}, "dev", secrets)


def problems(tracking: Any, secrets: Collection[str] = ()) -> dict[str, str]:
    """Return what is wrong, by the end of its key."""
    with pytest.raises(SettingsError) as caught:
        parsed(tracking, secrets)
    return {each.key.rpartition(".")[2]: each.text for each in caught.value.problems}


def test_what_the_server_requests_is_no_room_for_jobs() -> None:
    beside = [parsed({"kind": "mlflow", "database": each}) for each in ("sqlite", "postgresql")]
    rooms = [each.capacity for each in beside]
    assert rooms[0] == Capacity(Decimal("1.89"), 5 * 2**30 - 384 * 2**20, 0, 1)
    assert rooms[1] == Capacity(Decimal("1.87"), 5 * 2**30 - 448 * 2**20, 0, 1)
    assert parsed({"kind": "mlflow", "url": "https://mlflow.example.org"}).capacity == ROOM
    assert parsed().capacity == ROOM


def test_all_wrong_settings_are_reported_together() -> None:
    found = problems({"kind": "mlfow", "database": "mysql", "size": "10", "apiKey": "x"})
    assert found.keys() == {"kind", "database", "size", "apiKey"}
    assert "mlflow, wandb, tensorboard" in found["kind"]
    assert "sqlite, postgresql" in found["database"]
    assert "is missing" in problems({})["kind"]
    assert "it must be a map" in problems("mlflow")["slipway:tracking"]


@pytest.mark.parametrize(
    ("tracking", "key", "words"),
    [
        ({"kind": "mlflow", "url": "mlflow:5000"}, "url", "`env` of jobs"),
        ({"kind": "mlflow", "url": "https://me:secret@a.example"}, "url", "`env` of jobs"),
        ({"kind": "mlflow", "url": "https://a.example?x=1"}, "url", "`env` of jobs"),
        ({"kind": "tensorboard", "url": "https://a.example"}, "url", "remove it"),
        ({"kind": "mlflow", "url": "http://localhost:5000"}, "url", "remove it"),
        ({"kind": "wandb", "database": "postgresql"}, "database", "remove it"),
        ({"kind": "mlflow", "url": "https://a.example", "size": "1Gi"}, "size", "remove it"),
    ],
)
def test_what_belongs_elsewhere_is_refused(tracking: dict[str, str], key: str, words: str) -> None:
    assert words in problems(tracking)[key]


def test_it_holds_no_secret() -> None:
    found = problems({"kind": "mlflow"}, ["slipway:tracking"])
    assert "store it under another key" in found["slipway:tracking"]
