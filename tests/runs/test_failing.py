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
from tests.engine.job_programs import (
    FAILING,
    FOLLOWED,
    HUNGRY,
    REFUSAL,
    REFUSED,
    SLEEPING,
    TRACKED,
    python,
)
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

SOON_SECONDS = 60
"""Long before any limit of the job's; how long it takes says how busy the machine is."""
_TWICE = """
import os, sys, time
state = "/work/started"
print("the second time" if os.path.exists(state) else "the first time", flush=True)
if {ends_well} and os.path.exists(state):
    sys.exit(0)
with open(state, "a") as file:
    file.write("x")
# At the third start the operator ends the run: that one adds no failure of its own.
time.sleep(2 if os.path.getsize(state) < 3 else 600)
sys.exit(5)
"""
TWICE, SECOND_TIME = _TWICE.format(ends_well=False), _TWICE.format(ends_well=True)
"""Fails twice, or the first time only: `/work` outlives a container."""


def test_the_first_rank_to_fail_ends_the_run_within_seconds(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """Also where its container may be started again; `Never` is in test_logs.py."""
    said = runs.train_in_vain(job_name, **python(trainer, FAILING, restartPolicy="OnFailure"))
    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 3" in said
    assert "rank 1 is about to fail" in said
    result = runs.output(job_name)
    assert result["state"] == "Failed"
    assert result["duration_seconds"] < SOON_SECONDS, "rank 0 sleeps for 600 s"
    assert result["exit_codes"]["1"] == 3
    assert result["failure"]["log"] == ["rank 1 is about to fail"]
    # What still ran was stopped: nothing goes on unseen.
    await_true(lambda: not any(_running(pod) for pod in jobs.items("pods", job_name)))


def _running(pod: dict[str, Any]) -> bool:
    return any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))


def test_an_image_that_does_not_exist_ends_the_run_at_once(
    job_name: str, runs: Runs, jobs: Jobs
) -> None:
    """A run that cannot start ends within 10 s of Kubernetes knowing it.

    No image, a command that is not there, refused pods, a webhook's refusal.
    """
    missing = "localhost/there-is-no-such-image:1"
    said = runs.train_in_vain(job_name, **python(missing, SLEEPING, "0"))
    assert f"job {job_name} ended CannotStart" in said
    assert missing in said
    known = _event(jobs, f"{job_name}-master-0", "Failed")
    ended = datetime.fromisoformat(runs.output(job_name)["completed"])
    assert (ended - known).total_seconds() < SOON_SECONDS
    # It would start unseen if the image came to be.
    await_true(lambda: jobs.uids(job_name) == [])


def _event(jobs: Jobs, pod: str, reason: str) -> datetime:
    """Return when Kubernetes first told of something about a pod."""
    selector = f"involvedObject.name={pod},reason={reason}"
    told = json.loads(jobs.kubectl("get", "events", "--field-selector", selector, "-o", "json"))
    return min(datetime.fromisoformat(event["firstTimestamp"]) for event in told["items"])


def test_a_missing_command_is_reported_with_the_runtimes_message(
    job_name: str, runs: Runs, trainer: str
) -> None:
    declared = python(trainer, "", workers=0) | {"command": ["there-is-no-such-program"]}
    said = runs.train_in_vain(job_name, **declared)
    assert f"rank 0 ({job_name}-master-0) could not be started" in said
    assert 'exec: "there-is-no-such-program": executable file not found' in said
    assert "check that the image contains the job's `command`" in said


def test_the_rank_that_took_the_others_along_is_named_and_not_those(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """The rank that failed first is named, and not those that followed."""
    said = runs.train_in_vain(job_name, **python(trainer, FOLLOWED, restartPolicy="Never"))
    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 3" in said
    failed = runs.output(job_name)["failure"]
    assert failed["rank"] == 1
    assert failed["log"] == ["rank 1 is about to fail"]


def test_a_first_failure_is_shown_at_once_though_the_job_may_go_on(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    tolerated = python(trainer, SECOND_TIME, backoffLimit=3, workers=0)
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
    result = runs.output(job_name)
    assert result["state"] == "Succeeded"
    assert result["restarts"] == 1


@pytest.mark.long
def test_a_failure_after_a_restart_shows_the_log_of_both_starts(
    job_name: str, runs: Runs, trainer: str
) -> None:
    said = runs.train_in_vain(job_name, **python(trainer, TWICE, backoffLimit=2, workers=0))
    failed = runs.output(job_name)["failure"]
    assert failed["previous_log"] == ["the first time"]
    assert failed["log"] == ["the second time"]
    assert said.index("    the first time") < said.index("    the second time")


def test_the_row_shows_epoch_metrics_and_time_left(job_name: str, runs: Runs, trainer: str) -> None:
    attempt = runs.train(job_name, **python(trainer, TRACKED, workers=0))
    row = attempt.context.rows
    assert any(re.search(r"epoch 1/2 at \d+%, loss 1\.0000", line) for line in row), row
    ended = re.compile(r"epoch 1/2, loss 1\.0000, accuracy 0\.5000, .* about \d+ s left")
    assert any(ended.search(line) for line in row), row
    assert any("epoch 2/2, loss 0.5000, accuracy 0.6000" in line for line in row), row


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


def test_more_than_any_node_has_ends_the_run_at_once_with_the_numbers(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """What finds no room, or is over its quota, is shown in Kubernetes' own words.

    It ends the run after `startTimeout`, or at once and with the numbers where no node or quota
    could ever fit it.
    """
    said = runs.train_in_vain(job_name, **python(trainer, SLEEPING, "0", cpu=999))
    assert f"job {job_name} ended CannotStart: it can never be scheduled" in said
    assert re.search(r"it requests 999 cores, .*but no node has more than \d+ cores", said), said
    assert "Insufficient cpu" in said
    assert runs.output(job_name)["duration_seconds"] < SOON_SECONDS


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


def test_pods_that_are_refused_end_the_run_at_once(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    unknown = python(trainer, SLEEPING, "0", priorityClass="there-is-no-such-class")
    said = runs.train_in_vain(job_name, **unknown)
    assert f"job {job_name} ended CannotStart: its pods are refused" in said
    assert "there-is-no-such-class" in said
    assert runs.output(job_name)["duration_seconds"] < SOON_SECONDS
    await_true(lambda: jobs.uids(job_name) == [])


def test_a_job_refused_by_the_webhook_has_a_result_too(
    job_name: str, runs: Runs, trainer: str
) -> None:
    said = runs.train_in_vain(job_name, **python(trainer, SLEEPING, "0", labels=REFUSED))
    assert f"job {job_name} ended CannotStart: refused:" in said
    assert REFUSAL in said
    assert runs.output(job_name)["state"] == "CannotStart"
