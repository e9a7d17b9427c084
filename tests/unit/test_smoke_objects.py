"""What smoke checks say of objects."""

from typing import Any

import pytest

from tests.smoke.objects import came_before_ready


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
def test_what_a_start_took_two_tries_for_is_no_fault_once_the_pod_is_ready(
    told: dict[str, str], ready: str, *, expected: bool
) -> None:
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
    assert came_before_ready(event, {"status": status}) is expected
