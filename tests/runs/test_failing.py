"""A run that does not succeed ends soon, and says which rank, why, and what to do."""

import json
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.engine.awaiting import await_true
from tests.engine.embedded_cluster import restricted_pod
from tests.engine.job_programs import FAILING, HUNGRY, REFUSAL, REFUSED, SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

SOON_SECONDS = 60
"""Long before any limit of the job's; how long it takes says how busy the machine is."""
_FAILS_ONCE = """
import os, sys, time
if os.path.exists("/work/started"):
    sys.exit(0)
open("/work/started", "w").close()
time.sleep(2)
sys.exit(5)
"""
"""`/work` outlives a container."""


def test_the_first_rank_to_fail_ends_the_run_within_seconds(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """Also where its container may be started again; `Never` is in test_logs.py."""
    said = runs.train_in_vain(job_name, **python(trainer, FAILING, restartPolicy="OnFailure"))
    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 3" in said
    assert "rank 1 is about to fail" in said
    result = runs.output(job_name)
    assert result["duration_seconds"] < SOON_SECONDS, "rank 0 sleeps for 600 s"
    assert result["exit_codes"]["1"] == 3
    assert result["failure"]["log"] == ["rank 1 is about to fail"]
    # What still ran was stopped: nothing goes on unseen.
    await_true(lambda: not any(_running(pod) for pod in jobs.items("pods", job_name)))


def _running(pod: dict[str, Any]) -> bool:
    return any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))


_NO_IMAGE = "localhost/there-is-no-such-image:1"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"image": _NO_IMAGE}, [_NO_IMAGE]),
        (
            {"priorityClass": "there-is-no-such-class"},
            ["its pods are refused", "there-is-no-such-class"],
        ),
        (
            {"cpu": 999},
            [
                "it can never be scheduled",
                r"it requests 999 cores, .*but no node has more than \d+ cores",
                "Insufficient cpu",
            ],
        ),
    ],
    ids=["an image that does not exist", "pods that are refused", "more than any node has"],
)
def test_what_cannot_start_ends_at_once_in_kubernetes_words(
    fields: dict[str, Any],
    words: list[str],
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    trainer: str,
) -> None:
    said = runs.train_in_vain(job_name, **{**python(trainer, SLEEPING, "0"), **fields})
    assert f"job {job_name} ended CannotStart" in said
    for each in words:
        assert re.search(each, said), said
    assert runs.output(job_name)["duration_seconds"] < SOON_SECONDS
    # It would start unseen if what it lacks came to be.
    await_true(lambda: jobs.uids(job_name) == [])


def test_a_missing_command_is_reported_with_the_runtimes_message(
    job_name: str, runs: Runs, trainer: str
) -> None:
    declared = python(trainer, "", workers=0) | {"command": ["there-is-no-such-program"]}
    said = runs.train_in_vain(job_name, **declared)
    assert f"rank 0 ({job_name}-master-0) could not be started" in said
    assert 'exec: "there-is-no-such-program": executable file not found' in said
    assert "check that the image contains the job's `command`" in said


def test_a_first_failure_is_shown_at_once_though_the_job_may_go_on(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    tolerated = python(trainer, _FAILS_ONCE, backoffLimit=3, workers=0)
    with runs.training(job_name, **tolerated) as going:
        warning = f"rank 0 ({job_name}-master-0) exited with code 5"
        await_true(lambda: warning in going.text)
        shown = datetime.now(UTC)
        (pod,) = jobs.items("pods", job_name)
        (container,) = pod["status"]["containerStatuses"]
        # It may have been started again meanwhile.
        ended = container["lastState"].get("terminated") or container["state"]["terminated"]
        happened = datetime.fromisoformat(ended["finishedAt"])
        assert (shown - happened).total_seconds() < SOON_SECONDS
        assert going.end().error is None, going.text
    assert runs.output(job_name)["restarts"] == 1


def test_an_oom_kill_is_reported_with_its_memory_limit(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """And, as what the program did wrong, not tried again."""
    said = runs.train_in_vain(job_name, **python(trainer, HUNGRY, memory="96Mi", retries=2))
    assert f"rank 1 ({job_name}-worker-0) was killed: out of memory" in said
    assert "its memory limit: 96Mi" in said
    assert "Resubmitting" not in said
    result = runs.output(job_name)
    assert (result["state"], result["failure"]["exit_code"]) == ("Failed", 137)
    assert "attempts" not in result
    assert jobs.attempts(job_name) == ["1"]


def test_a_run_ends_at_its_timeout_and_nothing_of_it_goes_on(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """Until then its row shows the last line, as it prints no events."""
    program = f"print('half of it is done', flush=True)\n{SLEEPING}"
    said = runs.train_in_vain(job_name, **python(trainer, program, "600", timeout=12))
    assert "last line: half of it is done" in said
    assert f"job {job_name} ended TimedOut: unfinished after 12 s" in said
    assert runs.output(job_name)["state"] == "TimedOut"
    await_true(lambda: jobs.items("pods", job_name) == [])


@pytest.fixture
def full(jobs: Jobs, trainer: str) -> Iterator[dict[str, Any]]:
    """A pod that takes all but 2 GiB of the node's memory; what asks for 3 has no room then."""
    (node,) = json.loads(jobs.kubectl("get", "nodes", "-o", "json"))["items"]
    mebibytes = int(node["status"]["allocatable"]["memory"].removesuffix("Ki")) // 1024
    name = f"holder-{secrets.token_hex(4)}"
    holder, memory = restricted_pod(name), f"{mebibytes - 2048}Mi"
    [container] = holder["spec"]["containers"]
    resources = {"requests": {"memory": memory, "cpu": "1m"}, "limits": {"memory": memory}}
    command = {"command": ["sleep", "600"], "args": []}
    container |= {"image": trainer, "resources": resources, **command}
    jobs.kubectl("apply", "--filename", "-", given=json.dumps(holder))
    jobs.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=300s")
    yield holder
    jobs.kubectl("delete", "pod", name, "--ignore-not-found", "--grace-period=1")


def test_without_room_the_run_ends_after_its_start_limit_or_starts_when_there_is_some(
    full: dict[str, Any], job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    large = python(trainer, SLEEPING, "0", memory="3Gi", workers=0)
    late = f"{job_name}-late"
    said = runs.train_in_vain(late, **large, startTimeout=6)
    assert f"job {late} ended CannotStart: not all ranks started within 6 s" in said
    assert "Insufficient memory" in said
    with runs.training(job_name, **large) as going:
        await_true(lambda: "Insufficient memory" in going.text)
        jobs.kubectl("delete", "pod", full["metadata"]["name"], "--grace-period=1")
        assert going.end().error is None, going.text
    assert runs.output(job_name)["state"] == "Succeeded"


@pytest.fixture
def quota(jobs: Jobs) -> Iterator[str]:
    """A quota on the namespace's memory."""
    name = f"quota-{secrets.token_hex(4)}"
    jobs.kubectl("create", "quota", name, "--hard=requests.memory=1536Mi")
    yield name
    jobs.kubectl("delete", "quota", name)


def test_more_than_a_quota_has_ends_the_run_at_once_in_the_api_servers_words(
    quota: str, job_name: str, runs: Runs, trainer: str
) -> None:
    large = python(trainer, SLEEPING, "0", memory="1Gi")
    said = runs.train_in_vain(job_name, **large)
    assert f"job {job_name} ended CannotStart: its pods are refused" in said
    assert runs.output(job_name)["duration_seconds"] < SOON_SECONDS
    assert re.search(f"exceeded quota: {quota}, requested: .*requests.memory=1Gi", said), said


def test_a_job_refused_by_the_webhook_has_a_result_too(
    job_name: str, runs: Runs, trainer: str
) -> None:
    said = runs.train_in_vain(job_name, **python(trainer, SLEEPING, "0", labels=REFUSED))
    assert f"job {job_name} ended CannotStart: refused:" in said
    assert REFUSAL in said
    assert runs.output(job_name)["state"] == "CannotStart"
