"""Jobs beside each other and after each other: the real engine, the real operator, real pods."""

import json
import secrets
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack

Named = Callable[[str], str]
_LEAVE = """\
import os, sys
with open(os.environ["SLIPWAY_OUTPUT_DIR"] + "/net.pt", "w") as file:
    file.write(sys.argv[1])
"""
_SHOW = """
import hashlib, os
path = os.environ["SLIPWAY_INPUT_MODEL"]
print(path, hashlib.sha256(open(path, "rb").read()).hexdigest())
"""
_LITTLE_ROOM = """
from dataclasses import replace
from decimal import Decimal
from clusters.capacity import Capacity
from tests.engine import pytorchjob_stack

ground = pytorchjob_stack._ground
room = Capacity(Decimal("0.25"), 2**30, 0, 1)
pytorchjob_stack._ground = lambda: replace(ground(), capacity=room)
pytorchjob_stack.program()
"""
"""The program of a cluster that has 250m cores."""
_SPOIL = "import pathlib; [file.write_text('x') for file in pathlib.Path('/mnt').glob('*/net.pt')]"


@pytest.fixture
def named(jobs: Jobs) -> Iterator[Named]:
    """Return what makes names that nobody else has; nothing of those may be left in the end."""
    prefix, made = f"own-{secrets.token_hex(3)}", list[str]()

    def name(suffix: str) -> str:
        made.append(f"{prefix}-{suffix}")
        return made[-1]

    yield name
    for each in made:
        assert jobs.uids(each) == []
        assert jobs.items("pods", each) == []


def lasting(
    trainer: str, seconds: float = 0, accuracy: float = 0.5, **fields: Any
) -> dict[str, Any]:
    """Return a job of one process that ends well."""
    summary = json.dumps({"accuracy": accuracy})
    return python(trainer, SUMMARY, summary, str(seconds), workers=0, **fields)


def failing(trainer: str, **fields: Any) -> dict[str, Any]:
    return python(trainer, "import sys; sys.exit(3)", workers=0, **fields)


@pytest.fixture
def leaving(tmp_path: Path) -> dict[str, Any]:
    """A job that leaves the file net.pt, with its first argument in it, on a volume of its own."""
    script = tmp_path / "leave.py"
    script.write_text(_LEAVE)
    return {
        "script": str(script),
        "workers": 0,
        "cpu": "100m",
        "memory": "256Mi",
        "outputs": "file:///results",
        "volumes": {"results": {"size": "10Mi", "mountPath": "/results"}},
    }


def showing(trainer: str, other: str, artifact: str = "net.pt", **fields: Any) -> dict[str, Any]:
    """Return a job that prints where its input is, and its sha256."""
    taken = {"model": {"job": other, "artifact": artifact}}
    return python(trainer, _SHOW, workers=0, inputs=taken, **fields)


def shown(jobs: Jobs, name: str) -> list[str]:
    return jobs.kubectl("logs", f"{name}-master-0").split()


def times(stack: JobStack, name: str) -> tuple[str, str]:
    """Return when a run began and when it ended, by the cluster's clock."""
    result = stack.output(name)
    return result["started"], result["completed"]


def test_of_jobs_beside_each_other_one_that_fails_neither_stops_nor_hides_the_others(
    named: Named, job_stack: JobStack, trainer: str
) -> None:
    a, b, c = map(named, "abc")
    well = lasting(trainer, 6)
    said = job_stack.refused("up", program="", **{a: well, b: failing(trainer), c: well})
    assert f"job {b} ended Failed" in said
    assert [job_stack.output(name)["state"] for name in (a, b, c)] == [
        "Succeeded", "Failed", "Succeeded",
    ]  # fmt: skip
    assert job_stack.output(a)["accuracy"] == job_stack.output(c)["accuracy"] == 0.5
    assert job_stack.output("notRun") == {}
    (began_a, ended_a), (began_c, ended_c) = times(job_stack, a), times(job_stack, c)
    assert max(began_a, began_c) < min(ended_a, ended_c), "they ran side by side"


def test_a_job_starts_when_those_that_it_needs_have_ended_and_others_do_not_wait(
    named: Named, job_stack: JobStack, trainer: str
) -> None:
    a, b, c = map(named, "abc")
    job_stack.up("", **{
        c: lasting(trainer, dependsOn=[a]),
        b: lasting(trainer, 5),
        a: lasting(trainer, 5),
    })  # fmt: skip
    assert times(job_stack, a)[1] <= times(job_stack, c)[0]
    assert times(job_stack, b)[0] < times(job_stack, a)[1]


def test_jobs_whose_needed_one_failed_are_not_run_and_that_is_told_until_it_is_mended(
    named: Named, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    a, b, c, d = map(named, "abcd")
    well = lasting(trainer)
    others = {b: {**well, "dependsOn": [a]}, c: {**well, "dependsOn": [b]}, d: well}
    said = job_stack.refused("up", program="", **{a: failing(trainer), **others})

    assert f"job {a} ended Failed" in said
    assert "has no result" not in said, "what did not run is not judged"
    assert f"job {b} did not run: it needs {a}, which ended Failed" in said
    assert f"job {c} did not run: it needs {b}, which did not run" in said
    assert job_stack.output("notRun") == {
        b: f"it needs {a}, which ended Failed",
        c: f"it needs {b}, which did not run",
    }
    assert jobs.uids(b) == jobs.uids(c) == []
    assert job_stack.output(d)["state"] == "Succeeded"
    (before,) = jobs.uids(d)

    job_stack.up("", **{a: well, **others})
    assert [job_stack.output(name)["state"] for name in (a, b, c)] == ["Succeeded"] * 3
    assert job_stack.output("notRun") == {}
    assert jobs.uids(d) == [before], "it had succeeded"


def test_a_job_that_waited_for_room_runs_although_the_one_before_it_did_not(
    named: Named, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    (job_stack.directory / "__main__.py").write_text(_LITTLE_ROOM)
    a, b, c, d = map(named, "abcd")
    declared = {
        a: failing(trainer),
        b: lasting(trainer, dependsOn=[a], cpu="200m"),
        c: lasting(trainer, 3),
        d: lasting(trainer, cpu="200m"),
    }
    assert job_stack.preview("", **declared).changes["create"] == 2 * len(declared) + 2
    said = job_stack.refused("up", program="", **declared)
    assert f"job {b} did not run" in said
    assert jobs.uids(b) == []
    assert job_stack.output(c)["state"] == job_stack.output(d)["state"] == "Succeeded"
    assert times(job_stack, c)[1] <= times(job_stack, d)[0], "together they ask for 300m"


def test_a_job_that_missed_its_gate_has_none_follow_it_and_those_that_did_keep_their_results(
    named: Named, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    a, b = map(named, "ab")
    job_stack.up("", **{a: lasting(trainer), b: lasting(trainer, dependsOn=[a])})
    (before,) = jobs.uids(b)
    stricter = {a: lasting(trainer, minAccuracy=0.6), b: lasting(trainer, dependsOn=[a])}
    said = job_stack.refused("up", program="", **stricter)
    assert f"job {b} did not run: it needs {a}, which missed what its gate asks for" in said
    assert job_stack.output(a)["accuracy"] == 0.5
    assert jobs.uids(b) == [before]
    job_stack.up("", **{a: lasting(trainer), b: lasting(trainer, dependsOn=[a])})
    assert jobs.uids(b) == [before], "nothing that could alter its result has changed"


def test_an_artifact_is_handed_over_and_only_another_one_trains_again(
    named: Named, job_stack: JobStack, jobs: Jobs, trainer: str, leaving: dict[str, Any]
) -> None:
    train, evaluate = named("train"), named("evaluate")
    declared = {evaluate: showing(trainer, train), train: {**leaving, "args": ["one"]}}
    job_stack.up("", **declared)
    told = job_stack.output(train)["artifacts"]["net.pt"]
    assert told["sha256"] == sha256(b"one").hexdigest()
    assert shown(jobs, evaluate) == ["/work/inputs/model/net.pt", told["sha256"]]
    (first,) = jobs.uids(evaluate)

    assert job_stack.up("", **declared).changes == {}

    # It trains again and leaves the same at another place.
    declared[train] = {**leaving, "args": ["one", "as before"]}
    job_stack.up("", **declared)
    assert job_stack.output(train)["artifacts"]["net.pt"]["url"] != told["url"]
    assert jobs.uids(evaluate) == [first]
    assert job_stack.up("", **declared).changes == {}

    declared[train] = {**leaving, "args": ["two"]}
    job_stack.up("", **declared)
    assert jobs.uids(evaluate) != [first]
    assert shown(jobs, evaluate)[1] == sha256(b"two").hexdigest()


def test_an_artifact_that_is_not_there_is_told_with_those_that_are_and_none_follows(
    named: Named, job_stack: JobStack, jobs: Jobs, trainer: str, leaving: dict[str, Any]
) -> None:
    train, evaluate, report = map(named, ("train", "evaluate", "report"))
    declared = {
        train: {**leaving, "args": ["one"]},
        evaluate: showing(trainer, train, "nets/net.pt"),
        report: lasting(trainer, dependsOn=[evaluate]),
    }
    said = job_stack.refused("up", program="", **declared)
    assert (
        f"input model: job {train} succeeded but left no artifact nets/net.pt; its result has "
        "artifacts.json, net.pt."
    ) in said
    assert "Traceback" not in said
    assert job_stack.output(train)["state"] == "Succeeded"
    assert jobs.uids(evaluate) == jobs.uids(report) == []
    assert job_stack.output("notRun") == {report: f"it needs {evaluate}, which did not run"}


def test_an_artifact_that_somebody_wrote_over_ends_the_run_with_the_reason(
    named: Named, job_stack: JobStack, trainer: str, leaving: dict[str, Any]
) -> None:
    train, spoil, evaluate = map(named, ("train", "spoil", "evaluate"))
    claim = {"results": {"claim": f"{train}-results", "mountPath": "/mnt"}}
    declared = {
        train: {**leaving, "args": ["one"]},
        spoil: python(trainer, _SPOIL, workers=0, volumes=claim, dependsOn=[train]),
        evaluate: showing(trainer, train, dependsOn=[spoil]),
    }
    said = job_stack.refused("up", program="", **declared)
    assert f"the artifact net.pt of job {train} is not what it was" in said
    assert sha256(b"one").hexdigest() in said
    assert job_stack.output(evaluate)["state"] == "CannotStart"
    assert job_stack.output(evaluate)["duration_seconds"] < 60


def test_what_one_job_trained_another_one_evaluates(
    named: Named, job_stack: JobStack, trainer: str, leaving: dict[str, Any], root: Path
) -> None:
    train, evaluate = named("train"), named("evaluate")
    program = ["python3", "-m", "slipway_trainer.launch", "--", "-m", "slipway_trainer.mnist"]
    trained = {**leaving, "image": trainer, "command": program, "memory": "512Mi", "cpu": "400m"}
    del trained["script"]
    declared = {
        train: {**trained, "args": ["--limit-train", 2000]},
        evaluate: {
            "script": str(root / "examples/evaluate/evaluate.py"),
            "workers": 0,
            "memory": "512Mi",
            "inputs": {"model": {"job": train, "artifact": "mnist_cnn.pt"}},
            "minAccuracy": 0.5,
        },
    }
    job_stack.up("", **declared)
    told, found = job_stack.output(train), job_stack.output(evaluate)
    # In another memory layout a sum is rounded otherwise, and one picture of 10,000 may tip over.
    assert found["accuracy"] == pytest.approx(told["accuracy"], abs=1e-3)
    assert found["top5_accuracy"] == pytest.approx(told["top5_accuracy"], abs=1e-3)
    assert found["dataset"] == "mnist"


@pytest.mark.long
def test_a_preview_says_that_it_depends_on_the_artifact_whether_a_job_trains_again(
    named: Named, job_stack: JobStack, trainer: str, leaving: dict[str, Any]
) -> None:
    train, evaluate = named("train"), named("evaluate")
    declared = {train: {**leaving, "args": ["one"]}, evaluate: showing(trainer, train)}
    first = job_stack.preview("", **declared)
    assert first.changes["create"] >= 4
    job_stack.up("", **declared)
    assert job_stack.preview("", **declared).changes == {}
    declared[train] = {**leaving, "args": ["two"]}
    preview = job_stack.preview("", **declared)
    assert "trains again if the jobs before it leave other inputs" in preview.text, preview
    assert "artifacts" in preview.diff(evaluate), preview
