"""Jobs beside each other and after each other: the real engine, the real operator, real pods.

All of them are in one stack, which three updates and a preview bring from one state to the next.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scripts.cli.runs import fetch
from scripts.cli.state import StackState
from tests.engine.cli_stack import Outcome
from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack

Declared = dict[str, dict[str, Any]]
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
_KEEPING = """
from dataclasses import replace
from infra import kept
from tests.engine import pytorchjob_program

def keeping(there=pytorchjob_program._context()):
    size, cluster = kept.KeptOutputs(size="10Mi"), there.cluster
    place, volume = kept.keep(size, cluster, None, removed_with_stack=True, after=cluster.provider)
    return replace(there, needs=volume, kept=place)

pytorchjob_program._context = keeping
pytorchjob_program.program()
"""
"""The program of a stack that keeps its jobs' files on a volume, as the real one does."""
_SPOIL = "import pathlib; [file.write_text('x') for file in pathlib.Path('/mnt').glob('*/net.pt')]"


@dataclass(frozen=True)
class Round:
    """What one update has made of the jobs."""

    outcome: Outcome
    state: Mapping[str, Any]  # exported
    outputs: Mapping[str, Any]  # by job, and `notRun`
    uids: Mapping[str, str]  # of the PyTorchJobs that there are, by job
    shown: Mapping[str, list[str]]  # by those jobs that print their input: its path and sha256

    @property
    def said(self) -> str:
        return self.outcome.text


@dataclass(frozen=True)
class Many:
    """A stack of many jobs, and names for them that nobody else has."""

    stack: JobStack
    jobs: Jobs
    prefix: str

    def name(self, job: str) -> str:
        return f"{self.prefix}-{job}"

    def up(self, declared: Declared) -> Round:
        """Bring the stack to these jobs, whether or not that succeeds."""
        outcome = self.stack.attempt("up", **declared)
        listing = self.jobs.kubectl("get", "pytorchjobs", "--output", "json")
        metadata = [each["metadata"] for each in json.loads(listing)["items"]]
        uids = {each["name"]: each["uid"] for each in metadata if each["name"] in declared}
        outputs = {name: self.stack.output(name) for name in [*declared, "notRun"]}
        shown = {
            name: self.jobs.kubectl("logs", f"{name}-master-0").split()
            for name in uids
            if _SHOW in declared[name].get("command", ()) and outputs[name]["state"] == "Succeeded"
        }
        return Round(outcome, self.stack.saved, outputs, uids, shown)


def lasting(trainer: str, seconds: float = 0, **fields: Any) -> dict[str, Any]:
    """Return a job of one process that ends well."""
    return python(trainer, SUMMARY, '{"accuracy": 0.5}', str(seconds), workers=0, **fields)


def failing(trainer: str, **fields: Any) -> dict[str, Any]:
    program = "import sys; print('about to fail', flush=True); sys.exit(3)"
    return python(trainer, program, workers=0, **fields)


def showing(trainer: str, other: str, artifact: str = "net.pt", **fields: Any) -> dict[str, Any]:
    """Return a job that prints where its input is, and its sha256."""
    taken = {"model": {"job": other, "artifact": artifact}}
    return python(trainer, _SHOW, workers=0, inputs=taken, **fields)


@pytest.fixture(scope="module")
def many(module_stack: JobStack, jobs: Jobs) -> Many:
    (module_stack.directory / "__main__.py").write_text(_KEEPING)
    return Many(module_stack, jobs, f"own-{secrets.token_hex(3)}")


@pytest.fixture(scope="module")
def leaving(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A job that leaves the file net.pt, with its first argument in it, on a volume of its own."""
    script = tmp_path_factory.mktemp("leaving") / "leave.py"
    script.write_text(_LEAVE)
    return {
        "script": str(script),
        "workers": 0,
        "cpu": "100m",
        "memory": "256Mi",
        "outputs": "file:///results",
        "volumes": {"results": {"size": "10Mi", "mountPath": "/results"}},
    }


@pytest.fixture(scope="module")
def well(many: Many, trainer: str, leaving: dict[str, Any]) -> Declared:
    """The jobs that are in the stack all the time, as they are when all goes well."""
    own = many.name
    kept = {key: each for key, each in leaving.items() if key not in {"outputs", "volumes"}}
    return {
        own("needs-failed"): lasting(trainer, dependsOn=[own("fails")]),
        own("needs-that"): lasting(trainer, dependsOn=[own("needs-failed")]),
        own("fails"): lasting(trainer),
        own("beside"): lasting(trainer, 15),
        own("after"): lasting(trainer, dependsOn=[own("before")]),
        own("before"): lasting(trainer, 15),
        own("show-moved"): showing(trainer, own("moved")),
        own("moved"): {**leaving, "args": ["one"]},
        own("show-other"): showing(trainer, own("other")),
        own("other"): {**leaving, "args": ["one"]},
        own("keeps"): {**kept, "args": ["one"]},
        own("show-missing"): showing(trainer, own("moved")),
        own("needs-missing"): lasting(trainer, dependsOn=[own("show-missing")]),
    }


class Rounds(NamedTuple):
    """What the stack goes through."""

    first: Round  # some jobs fail, and others have none to follow
    second: Round  # they are mended, a gate is missed, and an artifact has moved
    preview: Outcome  # of the last
    third: Round  # the gate is as it was, and another artifact is another one


@pytest.fixture(scope="module")
def rounds(many: Many, well: Declared, trainer: str, leaving: dict[str, Any]) -> Rounds:
    """Bring the stack from one state to the next."""
    own = many.name
    claim = {"results": {"claim": own("spoilt-results"), "mountPath": "/mnt"}}
    first = {
        **well,
        own("fails"): failing(trainer),
        own("show-missing"): showing(trainer, own("moved"), "nets/net.pt"),
        own("spoilt"): {**leaving, "args": ["one"]},
        own("spoils"): python(trainer, _SPOIL, workers=0, volumes=claim, dependsOn=[own("spoilt")]),
        own("show-spoilt"): showing(trainer, own("spoilt"), dependsOn=[own("spoils")]),
    }
    moved = {**well, own("moved"): {**well[own("moved")], "args": ["one", "as before"]}}
    second = {**moved, own("before"): {**well[own("before")], "minAccuracy": 0.6}}
    lower = {own("before"): {**well[own("before")], "minAccuracy": 0.5}}
    third = {**moved, **lower, own("other"): {**well[own("other")], "args": ["two"]}}
    return Rounds(many.up(first), many.up(second), many.stack.preview(**third), many.up(third))


def test_jobs_run_beside_and_after_each_other_and_one_that_fails_neither_stops_nor_hides_others(
    many: Many, rounds: Rounds
) -> None:
    first = rounds.first
    fails, beside, before = map(many.name, ("fails", "beside", "before"))
    assert first.outcome.code != 0
    assert f"job {fails} ended Failed" in first.said
    states = [first.outputs[name]["state"] for name in (beside, fails, before)]
    assert states == ["Succeeded", "Failed", "Succeeded"]
    assert first.outputs[beside]["accuracy"] == first.outputs[before]["accuracy"] == 0.5
    began, ended = ([first.outputs[each][end] for each in (beside, before)]
                    for end in ("started", "completed"))  # fmt: skip
    assert max(began) < min(ended), "they ran side by side"
    assert ended[1] <= first.outputs[many.name("after")]["started"]


def test_jobs_that_depend_on_a_failed_job_are_listed_as_not_run_until_it_succeeds(
    many: Many, rounds: Rounds
) -> None:
    first, second, _, third = rounds
    a, b, c, beside = map(many.name, ("fails", "needs-failed", "needs-that", "beside"))
    assert "has no result" not in first.said, "what did not run is not judged"
    reasons = {b: f"it needs {a}, which ended Failed", c: f"it needs {b}, which did not run"}
    for job, reason in reasons.items():
        assert f"job {job} did not run: {reason}" in first.said
        assert first.outputs["notRun"][job] == reason
        assert job not in first.uids

    assert "the last run ended Failed: rank 0" in second.said, "why it trains again"
    assert [second.outputs[name]["state"] for name in (a, b, c)] == ["Succeeded"] * 3
    assert not {b, c} & second.outputs["notRun"].keys()
    assert second.uids[beside] == first.uids[beside], "it had succeeded"
    assert third.outputs["notRun"] == {}


def test_a_job_that_missed_its_gate_has_none_follow_it_and_those_that_did_keep_their_results(
    many: Many, rounds: Rounds
) -> None:
    first, second, _, third = rounds
    a, b = many.name("before"), many.name("after")
    assert second.outcome.code != 0
    reason = f"it needs {a}, which failed its gate"
    assert f"job {b} did not run: {reason}" in second.said
    assert second.outputs["notRun"] == {b: reason}
    assert second.outputs[a]["accuracy"] == 0.5
    assert second.uids[b] == first.uids[b]
    assert third.outcome.code == 0, str(third.outcome)
    assert third.uids[b] == first.uids[b], "nothing that could alter its result has changed"


def test_an_artifact_is_handed_over_and_only_another_one_trains_again(
    many: Many, rounds: Rounds
) -> None:
    """A preview says that it depends on the artifact whether a job trains again."""
    first, second, preview, third = rounds
    moved, other = many.name("moved"), many.name("other")
    show_moved, show_other = many.name("show-moved"), many.name("show-other")
    left = {job: first.outputs[job]["artifacts"]["net.pt"] for job in (moved, other)}
    one = sha256(b"one").hexdigest()
    assert left[moved]["sha256"] == left[other]["sha256"] == one
    assert first.shown[show_moved] == ["/work/inputs/model/net.pt", one]

    # It has trained again and left the same at another place.
    assert second.uids[moved] != first.uids[moved]
    assert second.outputs[moved]["artifacts"]["net.pt"]["url"] != left[moved]["url"]
    assert second.uids[show_moved] == first.uids[show_moved]
    assert second.uids[show_other] == first.uids[show_other]

    words = "trains again if the jobs that it depends on produce different inputs"
    assert words in preview.text, preview
    assert "artifacts" in preview.diff(show_other), preview
    assert preview.diff(show_moved) == {}, preview
    assert third.shown[show_other] == ["/work/inputs/model/net.pt", sha256(b"two").hexdigest()]
    # Of what is as it was nothing is touched, and what follows a gate that passes again neither.
    changed = {urn.rpartition("::")[2] for urn in third.outcome.urns("create", "update", "replace")}
    assert changed == {other, show_other, many.name("before")}


def test_a_job_that_names_no_place_keeps_its_files_and_they_are_fetched_when_its_pods_are_gone(
    many: Many, kubeconfig: str, rounds: Rounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make fetch` copies them; where they are kept is no part of what is trained."""
    name = many.name("keeps")
    left = rounds.first.outputs[name]["artifacts"]
    assert left["net.pt"]["url"].startswith(f"file:///opt/kept/outputs/{name}/{name}-")
    many.jobs.remove(name)
    state = replace(StackState.from_export(rounds.third.state), kubeconfig=kubeconfig)
    monkeypatch.setattr(fetch, "read_state", lambda *_, **__: state)
    to = tmp_path / "new"
    assert fetch.fetch("test", name, str(to)) == 0
    assert (to / "net.pt").read_text() == "one"
    assert "fetch-" not in many.jobs.kubectl("get", "pods", "--output", "name")


def test_an_artifact_that_is_missing_or_was_overwritten_is_named_and_blocks_dependents(
    many: Many, rounds: Rounds
) -> None:
    first, second, *_ = rounds
    left, shows, needs = map(many.name, ("moved", "show-missing", "needs-missing"))
    assert (
        f"input model: job {left} succeeded but left no artifact nets/net.pt; its result lists "
        "artifacts.json, net.pt."
    ) in first.said
    assert "Traceback" not in first.said
    assert first.outputs[left]["state"] == "Succeeded"
    assert not {shows, needs} & first.uids.keys()
    assert first.outputs["notRun"][needs] == f"it needs {shows}, which did not run"
    assert second.outputs[needs]["state"] == "Succeeded"
    assert f"artifact net.pt from job {many.name('spoilt')} was changed" in first.said
    assert sha256(b"one").hexdigest() in first.said
    assert first.outputs[many.name("show-spoilt")]["state"] == "CannotStart"
