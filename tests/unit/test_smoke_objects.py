"""What smoke checks say of objects."""

from typing import Any

import pytest

from tests.smoke.objects import came_before_start


@pytest.mark.parametrize(
    ("told", "ready", "expected"),
    [
        ({}, "True", True),
        ({"lastTimestamp": "2026-01-01T00:05:00Z"}, "True", False),
        ({}, "False", False),
        ({"message": "Liveness probe failed: refused"}, "True", False),
        ({"message": "Back-off restarting failed container"}, "True", False),
        ({"message": "MountVolume.SetUp failed for volume x: timed out"}, "True", True),
    ],
    ids=["at the start", "later", "never ready", "liveness", "another reason", "volume"],
)
def test_a_second_try_at_start_is_fine(told: dict[str, str], ready: str, *, expected: bool) -> None:
    event = {
        "message": "Readiness probe failed: connection refused",
        "lastTimestamp": "2026-01-01T00:00:10Z",
        **told,
    }
    since = "2026-01-01T00:05:10Z"
    status: dict[str, Any] = {
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
        "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}}}],
    }
    assert came_before_start(event, {"status": status}) is expected


def test_a_volume_that_a_pod_got_at_the_second_try_is_no_fault_once_it_has_succeeded() -> None:
    denied = "Unable to attach or mount volumes: no relationship found between node and claim"
    event = {"message": denied, "lastTimestamp": "2026-01-01T00:00:02Z"}
    at = "2026-01-01T00:00:04Z"
    ended = {"terminated": {"exitCode": 0, "startedAt": at}}
    status: dict[str, Any] = {
        "phase": "Succeeded",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at}],
        "containerStatuses": [{"state": ended}],
    }
    assert came_before_start(event, {"status": status})
    assert not came_before_start(event, {"status": {**status, "phase": "Failed"}})
    assert not came_before_start({**event, "message": "Back-off"}, {"status": status})
