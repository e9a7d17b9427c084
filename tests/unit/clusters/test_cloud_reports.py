"""What the cluster autoscaler says is told in words that say what to do."""

from typing import Any

import pytest
import yaml

from clusters import cloud_reports
from tests.unit.not_none import not_none


def event(reason: str, message: str, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at}


def status(code: str, message: str, state: str = "Backoff") -> str:
    """Return a status as the autoscaler's own test has it (clusterstate/utils/status_test.yaml)."""
    scale_up = {"status": state, "backoffInfo": {"errorCode": code, "errorMessage": message}}
    groups = [{"name": "aks-gpu-vmss", "scaleUp": scale_up}, {"name": "aks-system-vmss"}]
    return yaml.safe_dump({"autoscalerStatus": "Running", "nodeGroups": groups})


def test_the_latest_event_counts() -> None:
    words = "pod triggered scale-up: [{aks-gpu-vmss 0->1 (max: 4)}]"
    made = event("TriggeredScaleUp", words, "2026-01-01T00:00:01Z")
    words = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
    refused = event("NotTriggerScaleUp", words, "2026-01-01T00:09:00Z")
    other = event("FailedScheduling", "0/1 nodes are available")
    assert cloud_reports.growth([other]) is None
    found = not_none(cloud_reports.growth([other, made]))
    assert found.coming
    assert str(found) == "a node is being created ([{aks-gpu-vmss 0->1 (max: 4)}])"
    found = not_none(cloud_reports.growth([refused, made, other]))
    assert not found.coming
    assert str(found) == "no node is being created for it: 1 in backoff after failed scale-up"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("Operation results in exceeding quota limits of Core. Maximum allowed: 10", "used up:"),
        ("Code=OverconstrainedAllocationRequest", "no machines of this size are available"),
        ("1 max node group size reached", "the pool is at its maximum size"),
        ("Nodes added to group x failed to register within 15m0s", "never became a node"),
    ],
)
def test_known_provider_messages_are_explained(words: str, meant: str) -> None:
    told = cloud_reports.explained(words)
    assert meant in told
    assert words in told
    assert cloud_reports.explained("it is Tuesday") == "it is Tuesday"


def test_a_failure_of_the_autoscaler_is_reported_once_with_its_cause() -> None:
    (told,) = cloud_reports.setbacks(status("QUOTA_EXCEEDED", "Quota 'GPUS' exceeded. Limit: 0"))
    assert "aks-gpu-vmss: QUOTA_EXCEEDED: Quota 'GPUS' exceeded. Limit: 0" in told
    assert told.startswith("the subscription's quota is used up: raise it")
    words = "Scale-up failed for group aks-gpu-vmss: Code=SkuNotAvailable"
    times = ("2026-01-01T00:00:01Z", "2026-01-01T00:05:01Z")
    events = [event("FailedToScaleUpGroup", words, time) for time in times]
    events.append(event("ScaledUpGroup", "Scale-up: group aks-system-vmss size set to 2"))
    (told,) = cloud_reports.setbacks(None, events)
    assert words in told


@pytest.mark.parametrize(
    "text",
    [
        None,
        "Cluster-autoscaler status at 2021:\nCluster-wide:\n  Health:  Healthy (ready=3)\n",
        status("", "", "NoActivity"),
        "nodeGroups:\n",
    ],
)
def test_a_status_without_failures_has_no_setbacks(text: str | None) -> None:
    assert cloud_reports.setbacks(text) == []
