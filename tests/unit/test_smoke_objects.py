"""What smoke checks say of objects."""

from typing import Any

import pytest

from tests.smoke.objects import is_over

_PROBE = "Readiness probe failed: connection refused"
_MOUNT = "MountVolume.SetUp failed for volume x: timed out"
_DENIED = "Unable to attach or mount volumes: no relationship found between node and claim"


@pytest.mark.parametrize(
    ("message", "ready", "phase", "expected"),
    [
        (_PROBE, "True", "Running", True),
        (_PROBE, "False", "Running", False),
        ("Back-off restarting failed container", "True", "Running", False),
        (_MOUNT, "True", "Running", True),
        (_DENIED, "False", "Succeeded", True),
        (_DENIED, "False", "Failed", False),
    ],
)
def test_a_second_try_is_no_fault_of_a_pod_that_is_well(
    message: str, ready: str, phase: str, *, expected: bool
) -> None:
    since = "2026-01-01T00:05:10Z"
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    status: dict[str, Any] = {"phase": phase, "conditions": [condition]}
    assert is_over({"message": message}, {"status": status}) is expected
