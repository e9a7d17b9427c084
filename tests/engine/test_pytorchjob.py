"""Training runs as resources: the real engine, the real operator, real pods."""

from tests.engine.job_programs import FAILING, SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs, JobStack


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


def test_after_a_failure_is_mended_a_plain_up_trains_again(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    again = job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    assert "exited with code 3" in again
    job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    assert job_stack.output(job_name)["state"] == "Succeeded"


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
