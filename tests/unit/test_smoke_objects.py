"""What smoke checks say of objects."""

from typing import Any

import pytest

from tests.smoke.objects import was_to_be_ready

_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
_NOT_READY = {**_READY, "status": "False"}


@pytest.mark.parametrize(
    ("told", "ready", "overcome"),
    [
        ({}, _READY, True),
        ({"lastTimestamp": "2026-01-01T00:00:11Z"}, _READY, False),
        ({}, _NOT_READY, False),
        ({"message": "Liveness probe failed: refused"}, _READY, False),
        ({"reason": "BackOff"}, _READY, False),
    ],
    ids=["before", "after it was ready", "never ready", "liveness", "another reason"],
)
def test_a_readiness_probe_that_came_too_early_is_no_fault_once_the_pod_is_ready(
    told: dict[str, str], ready: dict[str, str], *, overcome: bool
) -> None:
    event: dict[str, Any] = {
        "reason": "Unhealthy",
        "message": "Readiness probe failed: connection refused",
        "lastTimestamp": "2026-01-01T00:00:10Z",
        **told,
    }
    assert was_to_be_ready(event, {"status": {"conditions": [ready]}}) is overcome
