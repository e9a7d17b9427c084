"""The kubeconfig that Azure lists after a while, by the double of its resource manager."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.azure_stack import kubeconfig
from clusters.azure_stack.kubeconfig import KubeconfigHandler, Refused
from core.handler import UNKNOWN, Change
from tests.doubles.azure_native.arm import Answer, Arm, refusal, serving
from tests.doubles.azure_native.credentials import TOKEN
from tests.doubles.azure_native.store import Record, Store
from tests.unit.row import Row

INSTANCE = "/subscriptions/s/providers/Microsoft.HybridContainerService/it/default"
START = f"POST {INSTANCE}/listUserKubeconfig?api-version=2024-01-01"
LOOK = "GET /operationStatuses/1?api-version=2024-01-01"
HTTP = "http://192.0.2.1/operationStatuses/1"


class Pauses(threading.Event):
    """Nobody has pressed Ctrl-C, and each pause ends at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return super().wait(0.001)


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arm]:
    store = Store(tmp_path)
    store.put(Record(INSTANCE, "azure-native:resources:Resource", {}))
    cluster = {"name": "c", "cluster": {"server": "https://10.0.0.1"}}
    document = {"clusters": [cluster], "users": [{"name": "u", "user": {}}]}
    store.kubeconfig.write_text(yaml.safe_dump(document))
    with serving(Arm(store)) as made:
        monkeypatch.setenv("ARM_METADATA_HOSTNAME", made.url)
        yield made


def inputs(**others: Any) -> dict[str, Any]:
    known = {"instance": INSTANCE, "operation": "listUserKubeconfig", "advice": "get a role"}
    return {**known, "token": TOKEN, **others}


def listed(row: Row | None = None, /, **others: Any) -> Any:
    """Return the document that a create gets."""
    row = row or Row(cancelled=Pauses())
    made, outputs = KubeconfigHandler().create(inputs(**others), row)
    assert made == INSTANCE
    return yaml.safe_load(outputs["kubeconfig"])


@pytest.mark.parametrize(("header", "polls"), [("Location", 0), ("Azure-AsyncOperation", 2)])
def test_it_is_polled_until_it_lists_the_kubeconfig(arm: Arm, header: str, polls: int) -> None:
    arm.header, arm.polls = header, polls
    assert listed()["clusters"][0]["cluster"] == {"server": "https://10.0.0.1"}
    asked = [each for each in arm.asked if "/metadata/" not in each]
    assert asked == [START, *[LOOK] * (polls + 1)]


def test_azure_is_waited_for_as_long_as_it_asks_for_but_no_hour(arm: Arm) -> None:
    arm.surprises = [
        refusal(429, "TooManyRequests", "slow down", **{"Retry-After": "17"}),
        refusal(503, "ServerBusy", "not now", **{"Retry-After": "3600"}),
        Answer(502),
    ]
    pauses = Pauses()
    row = Row(cancelled=pauses)
    listed(row)
    assert pauses.seconds == [17, 60, 5, 1, 1]
    assert row.said[0] == (
        "waiting for Azure to list the kubeconfig: Azure is busy: 429 TooManyRequests: slow down"
    )


NOT_READY = {"code": "NotReady", "message": "no nodes"}
INVALID = "401 InvalidAuthenticationToken: The access token is invalid."
ELSEWHERE = Answer(202, headers={"Location": HTTP})


@pytest.mark.parametrize(
    ("others", "failure", "surprises", "reason"),
    [
        ({}, NOT_READY, [], "NotReady: no nodes"),
        ({"token": "another's"}, None, [], INVALID),
        ({"instance": "/gone"}, None, [], "404 ResourceNotFound: there is no /gone"),
        ({}, None, [ELSEWHERE], f"{HTTP} does not use TLS, so no token is sent to it"),
    ],
)
def test_a_refusal_ends_it_with_azures_reason_what_to_do_and_no_token(
    arm: Arm, others: dict[str, Any], failure: Any, surprises: list[Answer], reason: str
) -> None:
    arm.failure, arm.surprises = failure, [*surprises]
    with pytest.raises(Refused) as refused:
        listed(**others)
    text = str(refused.value)
    assert text.startswith(f"listUserKubeconfig of {inputs(**others)['instance']}: ")
    assert f"{reason}\nwhat to do: get a role" in text
    assert inputs(**others)["token"] not in text
    assert len([each for each in arm.asked if each.startswith("POST ")]) == 1


def test_waiting_has_an_end(arm: Arm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "LIMIT_SECONDS", 2)  # of which requests take a part
    arm.polls = 1_000_000
    with pytest.raises(TimeoutError, match="the operation is InProgress\nwhat to do: get a role"):
        listed()


def test_metadatahost_comes_before_the_variable_and_azures_public_address_is_the_default(
    arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARM_METADATA_HOSTNAME", "http://127.0.0.1:1")
    assert listed(metadataHost=arm.url)
    monkeypatch.delenv("ARM_METADATA_HOSTNAME")
    assert kubeconfig._endpoint(None) == "https://management.azure.com"


def test_an_up_looks_for_another_kubeconfig_and_a_preview_does_not_ask(arm: Arm) -> None:
    handler, row = KubeconfigHandler(), Row(cancelled=Pauses())
    known = inputs()
    del known["token"]
    _, outputs = handler.create(inputs(), row)
    assert handler.diff({**known, **outputs}, inputs(), row) == []
    before = len(arm.asked)
    stale = {**known, "kubeconfig": "of before"}
    assert handler.diff(stale, known, row) == []
    # Another instance has a kubeconfig of its own.
    replaced = [Change("instance", replace=True)]
    assert handler.diff(stale, inputs(instance=UNKNOWN), row) == replaced
    assert len(arm.asked) == before
    assert handler.diff(stale, inputs(), row) == [Change("kubeconfig", drift=True)]
    assert handler.update(stale, inputs(), row) == outputs
