"""`make results` shows how each job has ended, from the state alone."""

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from socket import gethostname
from typing import Any
from unittest import mock

import pytest
import yaml

from core.paths import CHECKOUT
from jobs.model.job import TrainingJob
from jobs.model.parts import Bounds
from jobs.records import archive
from jobs.records.archive import entry
from scripts.cli.config import load_settings
from scripts.cli.runs import results
from scripts.cli.runs.results import Format, Outcome, outcomes, print_results
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError
from tests.unit.archived_run import line, made
from tests.unit.not_none import not_none
from tests.unit.scripts.cli.kept_state import keep_state, resource

RUN, GATE = "slipway:jobs:PyTorchJob", "slipway:jobs:Gate"
INPUTS = {"namespace": "slipway-jobs", "job": {"workers": 1}}
SUCCESS = {
    "state": "Succeeded", "reason": "", "accuracy": 0.98456, "loss": 0.1, "samples_seen": 120_000,
    "world_size": 2, "duration_seconds": 63, "completed": "2026-01-01T01:00:00+01:00",
}  # fmt: skip
FAILURE = {
    "state": "Failed", "reason": "rank 1 (bad-worker-0) exited with code 3", "world_size": 2,
    "failure": {"rank": 1, "log": ["its last words"], "advice": "mend it"},
}  # fmt: skip


def run(name: str, result: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return resource(RUN, name, inputs=INPUTS, outputs={"result": result}, **fields)


def gate(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    return resource(GATE, name, inputs={"job": name, "result": result, "minAccuracy": 0.5})


def pending(name: str, type_: str = "creating") -> dict[str, Any]:
    return {"type": type_, "resource": resource(RUN, name, inputs=INPUTS)}


def state(*resources: dict[str, Any], pending: tuple[dict[str, Any], ...] = ()) -> StackState:
    return StackState.from_export(
        {"deployment": {"resources": list(resources), "pending_operations": list(pending)}}
    )


def job(name: str, **fields: Any) -> TrainingJob:
    return TrainingJob(name=name, image="example.org/mine:1", command=("train",), **fields)


def found(there: StackState, *wanted: TrainingJob, is_busy: bool = False) -> dict[str, Outcome]:
    """Return jobs' outcomes beside a lock of another machine's, or of a process that has ended."""
    lock = {"pid": 0, "hostname": "elsewhere" if is_busy else gethostname(), "timestamp": ""}
    with mock.patch.object(results, "locks", return_value={Path("lock"): lock}):
        return outcomes("dev", there, wanted)


def test_a_result_has_passed_only_when_its_gate_is_there_with_this_very_result() -> None:
    passed = found(state(run("a", SUCCESS), gate("a", SUCCESS)))["a"]
    assert (passed.state, passed.gate) == ("Succeeded", "passed")
    before = {**SUCCESS, "accuracy": 0.9}
    assert found(state(run("a", SUCCESS), gate("a", before)))["a"].gate == "not judged"
    assert found(state(run("a", FAILURE), gate("a", SUCCESS)))["a"].gate == ""
    # Of a detached run, when the stack's file can't be read.
    running = gate("a", {"state": "Running"})
    running["inputs"]["minAccuracy"] = 0.99
    assert found(state(run("a", SUCCESS), running))["a"].gate == "missed"
    missed = found(state(run("a", SUCCESS)), job("a", min_accuracy=0.99, max_duration=60))["a"]
    assert missed.gate == "missed"
    assert "0.00544 less than its `minAccuracy` 0.99" in missed.missed[0].text
    assert "3 s more than its `maxDuration` 60" in missed.missed[1].text


def test_a_run_that_is_replaced_is_running_or_interrupted_but_not_one_that_is_continued() -> None:
    """Pulumi keeps no pending operation of what has been cancelled in good order."""
    replaced = run("a", SUCCESS, pendingReplacement=True)
    listed = found(state(replaced, pending=(pending("b"), pending("a"))), is_busy=True)
    assert [each.state for each in listed.values()] == ["running", "running"]
    listed = found(state(replaced, gate("a", SUCCESS)))
    assert (listed["a"].state, listed["a"].gate) == ("interrupted", "")
    assert "`make up`" in listed["a"].note
    # One that was replaced and is still to go is no result.
    assert found(state(run("a", SUCCESS, delete=True))) == {}
    listed = found(state(run("a", SUCCESS), gate("a", SUCCESS), pending=(pending("a"),)))
    assert listed["a"].gate == "passed"
    listed = found(state(run("a", SUCCESS), pending=(pending("a", "updating"),)), is_busy=True)
    assert listed["a"].state == "Succeeded"


def test_jobs_without_a_result_are_listed_with_the_reason() -> None:
    wanted = [job("a"), job("b", depends_on=("a",)), job("c")]
    listed = found(state(run("a", FAILURE)), *wanted)
    assert listed["b"].note == "it needs a, which ended Failed"
    assert listed["c"].note.startswith("`make up` runs it")
    listed = found(state(run("a", FAILURE)), *wanted, is_busy=True)
    assert listed["c"].note == "its run has not started yet"


def test_a_job_that_is_no_longer_declared_is_listed_as_such() -> None:
    listed = found(state(run("a", FAILURE), run("b", FAILURE)), job("b"))
    assert "no longer in the stack's file" in listed["a"].note
    assert listed["b"].note == ""
    text = printed(listed)
    assert "job a: Failed; the job is no longer" in text
    assert "job b ended Failed" in text


def printed(listed: Mapping[str, Outcome], job: str = "", form: Format = "text") -> str:
    with redirect_stdout(io.StringIO()) as out:
        print_results("dev", listed, {"big": "it needs GPUs"}, job, form)
    return out.getvalue()


def test_a_table_in_a_pipe_is_whole_however_long_its_cells_are() -> None:
    name = "a-job-with-a-name-as-long-as-they-may-be-in-kubernetes-indeed"
    bad = run("bad", {**FAILURE, "attempts": [{"number": 1, "reason": "evicted"}]})
    listed = found(state(run(name, SUCCESS), gate(name, SUCCESS), bad))
    heading, first, second, *rest = printed(listed).splitlines()
    assert heading.split()[:4] == ["job", "state", "gate", "accuracy"]
    assert first.split() == [
        name, "Succeeded", "passed", "0.9846", "0.1000", "120,000", "2",
        "1", "min", "3", "s", "1", "2026-01-01", "00:00",
    ]  # fmt: skip
    assert second.split() == ["bad", "Failed", "-", "-", "-", "-", "2", "-", "2", "-"]
    assert "\x1b" not in "".join([heading, first, second, *rest])
    assert "job bad ended Failed: rank 1 (bad-worker-0) exited with code 3" in rest
    assert "    its last words" in rest
    assert "what to do: mend it" in rest
    assert rest[-1] == "  big: it needs GPUs"


def test_one_job_is_shown_whole_and_programs_read_json() -> None:
    there = state(run("a", SUCCESS), gate("a", SUCCESS), run("bad", FAILURE))
    listed = found(there)
    assert "accuracy: 0.98456" in printed(listed, job="a")
    assert "bad" not in printed(listed, job="a")
    whole = printed(listed, job="bad")
    assert "job bad ended Failed" in whole
    assert "rank: 1" in whole
    assert whole.count("its last words") == 1
    document = json.loads(printed(found(there, job("a"), job("b")), form="json"))
    assert document["skipped"] == {"big": "it needs GPUs"}
    assert document["jobs"]["a"] == {"state": "Succeeded", "gate": "passed", "result": SUCCESS}
    assert document["jobs"]["b"]["result"] is None
    assert json.loads(printed(listed, job="a", form="json"))["result"] == SUCCESS


def test_what_is_not_there_is_named_with_what_is() -> None:
    nothing = found(state(), job("bad"))
    unknown = r"^There is no job 'bat'\. Did you mean bad\? Jobs in dev: bad\.$"
    with pytest.raises(CommandError, match=unknown):
        printed(nothing, job="bat")
    no_runs = "^Stack dev has no runs yet; `make up STACK=dev` runs its jobs.$"
    with pytest.raises(CommandError, match=no_runs):
        printed(nothing)
    assert "big: it needs GPUs" in printed({}), "no `make up` would change that"
    no_stack = r"Stack dev is not up, so it has no results \(`make down` removes results\)"
    with pytest.raises(CommandError, match=no_stack):
        results.show("dev", "", "text")


def test_an_update_ends_with_a_row_for_each_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "load_settings", lambda _stack: None)
    assert results.summarize("dev", 0) == 0
    assert capsys.readouterr().out == ""
    keep_state(resources=[run("a", SUCCESS), gate("a", SUCCESS), run("bad", FAILURE)])
    assert results.summarize("dev", 255) == 255
    shown = capsys.readouterr()
    rows = [line.split()[:2] for line in shown.out.splitlines()]
    assert rows == [["job", "state"], ["a", "Succeeded"], ["bad", "Failed"]]
    assert shown.err == "Details about a job: `make results JOB=… STACK=dev`\n"
    # Of a failure that an update has not seen, as its run was left to its waiter.
    assert results.summarize("dev", 0) == 1
    assert f"job bad ended {FAILURE['state']}:" in capsys.readouterr().err


def test_a_stacks_file_declares_its_jobs_and_its_secret_stays_encrypted(folder: Path) -> None:
    document = yaml.safe_load((CHECKOUT / "stacks/dev.yaml").read_text())
    document["config"]["slipway:hfToken"] = {"secure": "v1:abc"}
    document["config"]["slipway:jobs"] = {"mnist-gloo": {"env": {"TOKEN": {"config": "hfToken"}}}}
    (folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))
    settings = not_none(load_settings("dev"))
    assert [each.name for each in settings.jobs] == ["mnist-gloo"]
    assert settings.secrets == {"hfToken": '{"secure": "v1:abc"}'}
    assert load_settings("there-is-no-such-stack") is None
    (folder / "Pulumi.dev.yaml").write_text("config: {slipway:cluster: {kind: odd}}")
    assert load_settings("dev") is None


@pytest.mark.parametrize(
    ("place", "where"),
    [
        ("file:///opt/kept/outputs/a/a-1", "file:///opt/kept/outputs/a/a-1 (volume slipway-kept)"),
        ("abfs://c@x.dfs.core.windows.net/a/a-1", "abfs://c@x.dfs.core.windows.net/a/a-1"),
    ],
)
def test_results_show_where_the_files_are_and_how_to_fetch_them(place: str, where: str) -> None:
    left = {"artifacts.json": {"url": f"{place}/artifacts.json", "sha256": "0", "bytes": 1}}
    for result in ({**SUCCESS, "artifacts": left}, {**FAILURE, "failure": {"artifacts": left}}):
        listed = found(state(run("a", result), run("b", SUCCESS)))
        text = printed(listed, job="a")
        assert f"files: in {where}; `make fetch JOB=a STACK=dev` copies and checks them" in text
        assert "make fetch JOB=… STACK=dev" in printed(listed)
        assert "make fetch" not in printed(listed, job="b")


def test_a_job_without_limits_has_passed_no_gate() -> None:
    empty = resource(GATE, "a", inputs={"job": "a", "result": SUCCESS})
    listed = found(state(run("a", SUCCESS), empty))
    assert (listed["a"].gate, listed["a"].is_fine) == ("", True)
    assert printed(listed).splitlines()[1].split()[:3] == ["a", "Succeeded", "-"]
    assert found(state(run("a", SUCCESS)), job("a"))["a"].is_fine, "declared so"


def test_each_number_that_a_gate_judges_has_a_column_and_so_do_others_after_them() -> None:
    result = {**SUCCESS, "metrics": {"val_loss": 0.25, "other": 1.0}}
    bounds = {"val_loss": {"max": 0.3}, "accuracy": {"min": 0.5}, "f1": {"min": 0.5}}
    passed = gate("a", result)
    passed["inputs"]["require"] = bounds
    listed = found(state(run("a", result), passed, run("b", result), run("bad", FAILURE)),
                   job("b", require={"val_loss": Bounds(max=0.2)}))  # fmt: skip
    heading, *rows = printed(listed).splitlines()[:4]
    assert heading.split()[-3:] == ["val_loss", "f1", "other"]
    assert {row.split()[0]: row.split()[-3:] for row in rows} == {
        "a": ["0.25", "-", "1"], "b": ["0.25", "-", "1"], "bad": ["-", "-", "-"],
    }  # fmt: skip
    remedy = "what to do: change its settings or the limit, then run `make up` again"
    assert remedy in printed(listed)


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        ([], "its run is in progress or finished in the cluster; the next `make up` gets the "),
        ([entry("", "end", archive.INTERRUPTED, "Ctrl-C deleted it")], "Ctrl-C deleted it"),
    ],
)
def test_an_interrupted_run_has_a_note(timeline: list[dict[str, str]], words: str) -> None:
    made([line(1, "step 1")], job="a", timeline=timeline)
    for there in (state(), state(run("a", SUCCESS, pendingReplacement=True))):
        listed = found(there, job("a"), job("b"))
        assert listed["a"].state == "interrupted"
        assert listed["a"].note.startswith(words)
        assert listed["b"].state == "no result"
    assert found(state(), job("a"), is_busy=True)["a"].state == "no result"
