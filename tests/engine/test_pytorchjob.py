"""Training runs as resources: the real engine, the real operator, real pods."""

import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.pytorchjob_stack import Jobs, JobStack, await_true

# A program without torch whose ranks meet as the real ones do: the others try until rank 0 listens,
# and rank 0 goes on once all are there.
_MEETING = """
import json, os, socket, sys, time
rank, others = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    # Who connects and says nothing is the init container, which only waits for an answer.
    with socket.create_server(("", address[1])) as server:
        while others > 0:
            others -= server.accept()[0].recv(1) == b"x"
else:
    for _ in range(100):
        try:
            socket.create_connection(address, timeout=5).send(b"x")
            break
        except OSError:
            time.sleep(0.1)
    else:
        sys.exit("rank 0 does not listen")
"""
_FAILING = f"""{_MEETING}
if rank == 1:
    print("rank 1 is about to fail", flush=True)
    sys.exit(3)
time.sleep(600)
"""
_SLEEPING = f"""{_MEETING}
time.sleep(float(sys.argv[1]))
summary = {{"rank": rank, "accuracy": 0.5, "samples_seen": 10}}
with open("/dev/termination-log", "w") as log:
    json.dump(summary, log)
"""
_HUNGRY = f"""{_MEETING}
if rank == 1:
    everything = bytearray(1 << 30)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def jobs(kubeconfig_file: Path) -> Jobs:
    return Jobs(kubeconfig_file)


@pytest.fixture(scope="module")
def image(jobs: Jobs) -> str:
    return jobs.image()


@pytest.fixture
def stack(tmp_path: Path, root: Path, kubeconfig: str) -> Iterator[JobStack]:
    """A stack without jobs; those that a test leaves in it are deleted."""
    made = JobStack(tmp_path, root, kubeconfig)
    yield made
    made.pulumi("cancel", "--yes", "--stack", "test")
    left = made.attempt("destroy", environment=made.environment())
    assert left.code == 0, str(left)


@pytest.fixture
def name(jobs: Jobs) -> Iterator[str]:
    """A job's name that nobody else has; nothing of it must be left in the end."""
    made = f"own-{secrets.token_hex(4)}"
    yield made
    assert jobs.uids(made) == []
    assert jobs.items("pods", made) == []


def python(image: str, program: str, *args: str, **fields: Any) -> dict[str, Any]:
    """Return the declaration of a job that runs `program`."""
    return {
        "image": image,
        "command": ["python3", "-c", program],
        "args": list(args),
        "cpu": "100m",
        "memory": "128Mi",
        "timeout": 120,
        **fields,
    }


def test_outputs_are_what_the_ranks_wrote_to_their_logs(
    name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    options = ["--epochs", "2", "--limit-train", "1500", "--limit-test", "500"]
    command = ["python3", "-m", "slipway_trainer.mnist", *options]
    stack.train(name, image=image, command=command, workers=2)
    result, events = stack.output(name), jobs.events(name)

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

    (job,) = jobs.items("pytorchjobs", name)
    assert result["started"] == job["status"]["startTime"]
    assert result["completed"] == job["status"]["completionTime"]
    assert stack.train(name, image=image, command=command, workers=2).changes == {}


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_the_first_rank_to_fail_ends_the_run_within_seconds(
    policy: str, name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    began = time.monotonic()
    said = stack.train_in_vain(name, **python(image, _FAILING, restartPolicy=policy))
    assert time.monotonic() - began < 45

    assert f"job {name} ended Failed: rank 1 ({name}-worker-0) exited with code 3" in said
    assert "rank 1 is about to fail" in said
    assert "Traceback" not in said
    result = stack.output(name)
    assert result["state"] == "Failed"
    assert result["duration_seconds"] < 20
    assert result["exit_codes"]["1"] == 3
    assert result["failure"]["log"] == ["rank 1 is about to fail"]
    # What still ran was stopped: nothing goes on unseen.
    await_true(lambda: not any(_running(pod) for pod in jobs.items("pods", name)))


def _running(pod: dict[str, Any]) -> bool:
    return any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))


def test_after_a_failure_is_mended_a_plain_up_trains_again(
    name: str, stack: JobStack, image: str
) -> None:
    stack.train_in_vain(name, **python(image, _FAILING))
    again = stack.train_in_vain(name, **python(image, _FAILING))
    assert "exited with code 3" in again
    stack.train(name, **python(image, _SLEEPING, "0"))
    assert stack.output(name)["state"] == "Succeeded"


def test_an_image_that_does_not_exist_ends_the_run_at_once(
    name: str, stack: JobStack, jobs: Jobs
) -> None:
    missing = "localhost/there-is-no-such-image:1"
    said = stack.train_in_vain(name, **python(missing, _SLEEPING, "0"))
    assert f"job {name} ended CannotStart" in said
    assert missing in said
    assert stack.output(name)["duration_seconds"] < 20
    # It would start unseen if the image came to be.
    await_true(lambda: jobs.uids(name) == [])


def test_a_rank_killed_for_memory_is_told_with_its_limit(
    name: str, stack: JobStack, image: str
) -> None:
    said = stack.train_in_vain(name, **python(image, _HUNGRY, memory="96Mi"))
    assert f"rank 1 ({name}-worker-0) was killed: out of memory" in said
    assert "its memory limit: 96Mi" in said
    assert stack.output(name)["failure"]["exit_code"] == 137


def test_a_run_ends_at_its_timeout_and_nothing_of_it_goes_on(
    name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    said = stack.train_in_vain(name, **python(image, _SLEEPING, "600", timeout=8))
    assert f"job {name} ended TimedOut: not done after 8 s" in said
    assert stack.output(name)["state"] == "TimedOut"
    await_true(lambda: jobs.items("pods", name) == [])


def test_more_than_any_node_has_ends_after_the_start_limit_with_the_reason(
    name: str, stack: JobStack, image: str
) -> None:
    said = stack.train_in_vain(name, **python(image, _SLEEPING, "0", cpu=999, startTimeout=5))
    assert "not all ranks started within 5 s" in said
    assert "Insufficient cpu" in said


def test_a_job_refused_by_the_webhook_has_a_result_too(
    name: str, stack: JobStack, image: str
) -> None:
    too_long = {"labels": {"team": "x" * 64}}
    said = stack.train_in_vain(name, **python(image, _SLEEPING, "0", **too_long))
    assert f"job {name} ended CannotStart: refused:" in said
    assert "must be no more than 63" in said
    assert stack.output(name)["state"] == "CannotStart"


def test_a_run_is_kept_when_its_job_is_gone_and_when_only_a_label_changes(
    name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    declared = python(image, _SLEEPING, "0")
    stack.train(name, **declared)
    result, (uid,) = stack.output(name), jobs.uids(name)

    labelled = stack.train(name, **declared, labels={"team": "vision"})
    assert labelled.changes == {"update": 1}
    (job,) = jobs.items("pytorchjobs", name)
    assert job["metadata"]["uid"] == uid
    assert job["metadata"]["labels"]["team"] == "vision"

    jobs.kubectl("delete", "pytorchjob", name, "--wait")
    assert stack.train(name, **declared, labels={"team": "vision"}).changes == {}
    stack.refresh()
    assert stack.train(name, **declared, labels={"team": "vision"}).changes == {}
    assert stack.output(name) == result
    assert jobs.uids(name) == []


def test_what_alters_the_result_trains_again_and_the_preview_names_it(
    name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    stack.train(name, **python(image, _SLEEPING, "0"))
    (before,) = jobs.uids(name)
    changed = {name: python(image, _SLEEPING, "0.5")}
    preview = stack.preview("", **changed)
    assert preview.changes["replace"] >= 1
    assert any(path.startswith("manifest.spec.") for path in preview.diff(name)), preview
    assert jobs.uids(name) == [before]
    stack.up("", **changed)
    (after,) = jobs.uids(name)
    assert after != before


def test_a_killed_cli_leaves_one_job_and_the_next_up_takes_the_wait_up_again(
    name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    declared = python(image, _SLEEPING, "12")
    with stack.training(name, **declared) as up:
        uid = jobs.await_running(name)
        up.send_signal(signal.SIGKILL)
        up.wait()
    stack.pulumi("cancel", "--yes", "--stack", "test")
    stack.train(name, **declared)
    assert jobs.uids(name) == [uid]
    assert stack.output(name)["state"] == "Succeeded"
    assert stack.output(name)["restarts"] == 0


def test_ctrl_c_stops_waiting_and_leaves_the_job_to_the_next_up(
    name: str, stack: JobStack, jobs: Jobs, image: str
) -> None:
    declared = python(image, _SLEEPING, "15")
    with stack.training(name, **declared) as up:
        uid = jobs.await_running(name)
        up.send_signal(signal.SIGINT)
        assert up.wait(10) != 0
    assert "stopped waiting" in stack.log
    stack.train(name, **declared)
    assert jobs.uids(name) == [uid]
    assert stack.output(name)["state"] == "Succeeded"


def test_destroy_stops_a_run_that_is_on(name: str, stack: JobStack, jobs: Jobs, image: str) -> None:
    stack.train(name, **python(image, _SLEEPING, "0"))
    stack.destroy()
    assert jobs.uids(name) == []
    assert jobs.items("pods", name) == []
