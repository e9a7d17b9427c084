"""Training runs as resources: the real engine, the real operator, real pods."""

import signal
import time
from typing import Any

import pytest

from tests.engine.job_programs import FAILING, HUNGRY, SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs, JobStack, await_true


def test_outputs_are_what_the_ranks_wrote_to_their_logs(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    options = ["--epochs", "2", "--limit-train", "1500", "--limit-test", "500"]
    command = ["python3", "-m", "slipway_trainer.mnist", *options]
    job_stack.train(job_name, image=trainer, command=command, workers=2)
    result, events = job_stack.output(job_name), jobs.events(job_name)

    epochs = [event for event in events if event["event"] == "epoch"]
    first = [event for event in epochs if event["rank"] == 0]
    started = [event for event in events if event["event"] == "started"]
    assert len(started) == result["world_size"] == 3
    assert {event["world_size"] for event in started} == {3}
    assert {event["backend"] for event in started} == {result["backend"]}
    assert result["state"] == "Succeeded"
    assert result["epoch_accuracies"] == [event["accuracy"] for event in first]
    assert len(first) == 2
    assert result["accuracy"] == first[-1]["accuracy"]
    assert result["samples_seen"] == sum(event["samples"] for event in epochs) == 2 * 1500
    assert result["exit_codes"] == {"0": 0, "1": 0, "2": 0}

    (job,) = jobs.items("pytorchjobs", job_name)
    assert result["started"] == job["status"]["startTime"]
    assert result["completed"] == job["status"]["completionTime"]
    assert job_stack.train(job_name, image=trainer, command=command, workers=2).changes == {}


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_the_first_rank_to_fail_ends_the_run_within_seconds(
    policy: str, job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    began = time.monotonic()
    said = job_stack.train_in_vain(job_name, **python(trainer, FAILING, restartPolicy=policy))
    assert time.monotonic() - began < 45

    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 3" in said
    assert "rank 1 is about to fail" in said
    assert "Traceback" not in said
    result = job_stack.output(job_name)
    assert result["state"] == "Failed"
    assert result["duration_seconds"] < 20
    assert result["exit_codes"]["1"] == 3
    assert result["failure"]["log"] == ["rank 1 is about to fail"]
    # What still ran was stopped: nothing goes on unseen.
    await_true(lambda: not any(_running(pod) for pod in jobs.items("pods", job_name)))


def _running(pod: dict[str, Any]) -> bool:
    return any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))


def test_after_a_failure_is_mended_a_plain_up_trains_again(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    again = job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    assert "exited with code 3" in again
    job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    assert job_stack.output(job_name)["state"] == "Succeeded"


def test_an_image_that_does_not_exist_ends_the_run_at_once(
    job_name: str, job_stack: JobStack, jobs: Jobs
) -> None:
    missing = "localhost/there-is-no-such-image:1"
    said = job_stack.train_in_vain(job_name, **python(missing, SLEEPING, "0"))
    assert f"job {job_name} ended CannotStart" in said
    assert missing in said
    assert job_stack.output(job_name)["duration_seconds"] < 20
    # It would start unseen if the image came to be.
    await_true(lambda: jobs.uids(job_name) == [])


def test_a_rank_killed_for_memory_is_told_with_its_limit(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    said = job_stack.train_in_vain(job_name, **python(trainer, HUNGRY, memory="96Mi"))
    assert f"rank 1 ({job_name}-worker-0) was killed: out of memory" in said
    assert "its memory limit: 96Mi" in said
    assert job_stack.output(job_name)["failure"]["exit_code"] == 137


def test_a_run_ends_at_its_timeout_and_nothing_of_it_goes_on(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    said = job_stack.train_in_vain(job_name, **python(trainer, SLEEPING, "600", timeout=8))
    assert f"job {job_name} ended TimedOut: not done after 8 s" in said
    assert job_stack.output(job_name)["state"] == "TimedOut"
    await_true(lambda: jobs.items("pods", job_name) == [])


def test_more_than_any_node_has_ends_after_the_start_limit_with_the_reason(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    said = job_stack.train_in_vain(
        job_name, **python(trainer, SLEEPING, "0", cpu=999, startTimeout=5)
    )
    assert "not all ranks started within 5 s" in said
    assert "Insufficient cpu" in said


def test_a_job_refused_by_the_webhook_has_a_result_too(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    too_long = {"unchecked": {"labels": {"team": "x" * 64}}}
    said = job_stack.train_in_vain(job_name, **python(trainer, SLEEPING, "0", **too_long))
    assert f"job {job_name} ended CannotStart: refused:" in said
    assert "must be no more than 63" in said
    assert job_stack.output(job_name)["state"] == "CannotStart"


def test_a_run_is_kept_when_its_job_is_gone_and_when_only_a_label_changes(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    job_stack.train(job_name, **declared)
    result, (uid,) = job_stack.output(job_name), jobs.uids(job_name)

    labelled = job_stack.train(job_name, **declared, labels={"team": "vision"})
    assert labelled.changes == {"update": 1}
    (job,) = jobs.items("pytorchjobs", job_name)
    assert job["metadata"]["uid"] == uid
    assert job["metadata"]["labels"]["team"] == "vision"

    jobs.kubectl("delete", "pytorchjob", job_name, "--wait")
    assert job_stack.train(job_name, **declared, labels={"team": "vision"}).changes == {}
    job_stack.refresh()
    assert job_stack.train(job_name, **declared, labels={"team": "vision"}).changes == {}
    assert job_stack.output(job_name) == result
    assert jobs.uids(job_name) == []


def test_what_alters_the_result_trains_again_and_the_preview_names_it(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    (before,) = jobs.uids(job_name)
    changed = {job_name: python(trainer, SLEEPING, "0.5")}
    preview = job_stack.preview("", **changed)
    assert preview.changes["replace"] >= 1
    assert any(path.startswith("manifest.spec.") for path in preview.diff(job_name)), preview
    assert jobs.uids(job_name) == [before]
    job_stack.up("", **changed)
    (after,) = jobs.uids(job_name)
    assert after != before


def test_a_killed_cli_leaves_one_job_and_the_next_up_takes_the_wait_up_again(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "12")
    with job_stack.training(job_name, **declared) as up:
        uid = jobs.await_running(job_name)
        up.send_signal(signal.SIGKILL)
        up.wait()
    job_stack.pulumi("cancel", "--yes", "--stack", "test")
    job_stack.train(job_name, **declared)
    assert jobs.uids(job_name) == [uid]
    assert job_stack.output(job_name)["state"] == "Succeeded"
    assert job_stack.output(job_name)["restarts"] == 0


def test_ctrl_c_stops_waiting_and_leaves_the_job_to_the_next_up(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "15")
    with job_stack.training(job_name, **declared) as up:
        uid = jobs.await_running(job_name)
        up.send_signal(signal.SIGINT)
        assert up.wait(10) != 0
    assert "stopped waiting" in job_stack.log
    job_stack.train(job_name, **declared)
    assert jobs.uids(job_name) == [uid]
    assert job_stack.output(job_name)["state"] == "Succeeded"


def test_destroy_stops_a_run_that_is_on(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    job_stack.destroy()
    assert jobs.uids(job_name) == []
    assert jobs.items("pods", job_name) == []
