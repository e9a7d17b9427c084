"""The settings of `slipway:tracking`, as part of a stack's."""

import json
from decimal import Decimal
from typing import Any

import pytest

from clusters.nodes import Capacity
from infra.settings import SettingsError, StackSettings, parse

ROOM = Capacity(Decimal("1.94"), 5 * 2**30, 0, 1)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.embedded.cluster.capacity", lambda _settings: ROOM)


def parsed(tracking: Any = None) -> StackSettings:
    section = {} if tracking is None else {"slipway:tracking": json.dumps(tracking)}
    return parse({"slipway:cluster": json.dumps({"kind": "embedded"}), **section}, "dev")


def problems(tracking: Any) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        parsed(tracking)
    return {problem.key: problem.text for problem in caught.value.problems}


def test_what_the_server_requests_is_no_room_for_jobs() -> None:
    beside = [parsed({"kind": "mlflow", "database": each}) for each in ("sqlite", "postgresql")]
    rooms = [each.capacity for each in beside]
    assert rooms[0] == Capacity(Decimal("1.89"), 5 * 2**30 - 384 * 2**20, 0, 1)
    assert rooms[1] == Capacity(Decimal("1.87"), 5 * 2**30 - 448 * 2**20, 0, 1)
    assert parsed({"kind": "mlflow", "url": "https://mlflow.example.org"}).capacity == ROOM
    assert parsed().capacity == ROOM


def test_all_wrong_settings_are_reported_together() -> None:
    found = problems({"kind": "mlfow", "database": "mysql", "size": "10", "apiKey": "x"})
    assert found.keys() == {
        f"slipway:tracking.{key}" for key in ("kind", "database", "size", "apiKey")
    }
    assert "mlflow, wandb, tensorboard" in found["slipway:tracking.kind"]
    assert "sqlite, postgresql" in found["slipway:tracking.database"]
    assert "is missing" in problems({})["slipway:tracking.kind"]
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
    assert words in problems(tracking)[f"slipway:tracking.{key}"]


def test_it_holds_no_secret() -> None:
    kinds = {"slipway:cluster": '{"kind": "embedded"}', "slipway:tracking": '{"kind": "mlflow"}'}
    with pytest.raises(SettingsError, match="store it under another key"):
        parse(kinds, "dev", ["slipway:tracking"])
