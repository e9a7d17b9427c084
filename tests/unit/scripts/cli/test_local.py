"""A job's ranks run as processes of this machine, and end as those of a cluster do."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from core.files import locked
from core.paths import CHECKOUT, distinct, of_project, state_dir
from jobs.model.job import TrainingJob
from jobs.observe import verdict
from jobs.observe.run_state import RunState
from jobs.result import End
from jobs.run import local as local_run
from scripts.cli import local
from scripts.cli.runs.logs import Printer
from scripts.cli.terminal import CommandError
from tests.portable.results import ENTRIES, lasting, run_here
from tests.unit.shell_program import shell_program

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(folder: Path) -> Run:
    """Run a job of a stack's file; return the exit code and the result that is kept."""
    (folder / "tests").symlink_to(CHECKOUT / "tests")

    def run(name: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        return run_here(name, {**ENTRIES.get(name, {}), **fields})

    return run


def test_numbers_files_and_gates_are_a_pods(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers that are logged are judged, what `keep` names is kept, and the rest is named."""
    code, result = run("hello")
    assert code == 0
    found = lasting(result)
    assert found.items() >= {
        "state": "Succeeded", "world_size": 3, "samples_seen": 30, "accuracy": 0.9,
        "epoch_accuracies": [0.65, 0.9], "metrics": {"val_loss": 0.3, "perplexity": 12.4},
        "exit_codes": {"0": 0, "1": 0, "2": 0}, "left_behind": {"left.log": 8},
    }.items()  # fmt: skip
    assert found["files"].keys() == {"greeting.txt", "model.bin"}
    printed, said = capsys.readouterr()
    for rank in range(3):
        hello = f"hello from rank {rank} of 3: --greeting costs $$5 --job hello"
        assert f"[rank {rank}] {hello}\n" in printed
    assert "no isolation" in said
    assert "job hello: Succeeded in" in said
    code, _ = run("hello", require={"val_loss": {"max": 0.2}}, minAccuracy=0.95)
    assert code == 1
    said = capsys.readouterr().err
    assert "val_loss is 0.3, which is 0.1 more than its `max` 0.2" in said
    assert "an accuracy of 0.9, which is 0.05 less than its `minAccuracy` 0.95" in said


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("counted", 0, {"loss": 0.1667, "accuracy": 0.75,
                        "epoch_metrics": {"loss": [0.5, 0.25, 0.1667]}}),
        ("exchange", 0, {"metrics": {"total": 3, "hosts": 3}}),
        ("follows", 1, {"reason": "rank 1 (follows-worker-0) exited with code 3",
                        "exit_codes": {"0": 1, "1": 3}}),
    ],
)  # fmt: skip
def test_a_program_has_the_result_that_it_has_in_a_cluster(
    run: Run, name: str, code: int, expected: dict[str, Any]
) -> None:
    """Printed numbers are found, ranks meet at the master, the rank that failed first is named.

    Of a job's runs the files of the last five are kept, and of those that are still running.
    """
    folder = state_dir() / "local" / of_project("mine") / "runs" / name
    older = [f"{name}-20260101-10000{number}" for number in range(1, 7)]
    for each in older:
        (folder / f"{each}-ab12").mkdir(parents=True)
    with locked(folder / f"{older[0]}-ab12" / ".lock"):
        found, result = run(name)
    assert found == code
    assert {key: result.get(key) for key in expected} == expected
    kept = sorted(each.name for each in folder.iterdir())
    assert [each.removesuffix("-ab12") for each in kept[:-1]] == [older[0], *older[2:]]


def test_the_error_is_named_and_others_end(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The rank that failed first is named with its exception and line, and the others end."""
    begun = time.monotonic()
    code, result = run("fails")
    assert code == 1
    assert time.monotonic() - begun < 20
    error = "ValueError: label 11 is out of range, fails.py:9"
    assert result["reason"] == f"rank 1 (fails-worker-0) exited with code 1: {error}"
    assert result["exit_codes"] == {"1": 1}
    assert result["failure"].items() >= {"rank": 1, "exit_code": 1}.items()
    assert "rank 1 is about to fail" in result["failure"]["log"]
    said = capsys.readouterr().err
    assert f"job fails ended Failed: {result['reason']}" in said
    assert "what to do: fix the program, then run it again" in said


def test_a_run_ends_at_its_timeout_with_where_its_ranks_stood(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_of(state: RunState, _: float, job: TrainingJob) -> End | None:
        """Judge as if its time were over as soon as it has begun, however busy the machine."""
        return verdict.end_of(state, 60 if "begun" in str(state.progress) else 0, job)

    monkeypatch.setattr(local_run, "end_of", end_of)
    program = 'import time\n\ndef wait():\n    print("begun")\n    time.sleep(600)\n\nwait()\n'
    (folder / "hangs.py").write_text(program)
    code, result = run("hangs", script="hangs.py", workers=0, timeout=30)
    assert (code, result["state"]) == (1, "TimedOut")
    # As soon as its line is there, it may not have come back from printing it.
    assert re.search("hangs.py:[45] in wait", result["failure"]["stacks"]["rank 0"][0])


_STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""
_QUICKLY = """
import sys
from jobs.run import local as run
from scripts.cli.calls import call
run._STOP_SECONDS = 0.5
arguments = {"script": sys.argv[1], "settings": ["workers=1"], "python": sys.executable}
sys.exit(call("run", "cli.local:run_script", arguments))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_ends_all_ranks_and_their_children(tmp_path: Path, number: signal.Signals) -> None:
    """Also one that ignores SIGTERM, and a process in a session of its own."""
    (tmp_path / "stubborn.py").write_text(_STUBBORN)
    command = [sys.executable, "-c", _QUICKLY, str(tmp_path / "stubborn.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        seen = {process.stdout.readline() for _ in range(2)}
        assert seen == {"[rank 0] started\n", "[rank 1] started\n"}
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Interrupted; all ranks have exited." in said
    mark = f"SLIPWAY_ROOT={state_dir()}".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            assert mark not in file.read_bytes()


def test_a_closed_terminal_leaves_ranks_time_to_save(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = f"print('saving', flush=True), time.sleep(0.5), open('{folder}/saved', 'w'), exit(1)"
    handler = f"import signal, time; signal.signal(signal.SIGTERM, lambda *_: ({saves}))"
    (folder / "saves.py").write_text(f"{handler}; print('begun', flush=True); time.sleep(60)")
    monkeypatch.setattr(Printer, "print", Mock(side_effect=BrokenPipeError))
    with pytest.raises(BrokenPipeError):
        run("saves", script="saves.py", workers=0)
    assert (folder / "saved").exists()


def test_what_needs_a_cluster_is_refused_all_at_once(run: Run) -> None:
    token = {"TOKEN": {"config": "hfToken"}}
    with pytest.raises(CommandError) as caught:
        run("hello", elastic={"minReplicas": 1}, env=token)
    said = str(caught.value)
    assert "slipway:jobs.hello.elastic: needs a cluster: run it with `make up`" in said
    assert "slipway:jobs.hello.env.TOKEN: " in said
    assert "set TOKEN in your environment" in said
    with pytest.raises(CommandError, match=r"slipway:jobs\.mnist-gloo: needs a cluster"):
        run("mnist-gloo")  # a demo of the catalogue


def test_only_the_jobs_faults_stop_it(folder: Path) -> None:
    """Other jobs of the stack's file are not run, also those that it follows in a cluster."""
    (folder / "script.py").write_text("print(1)")
    jobs = {
        "mine": {"script": "script.py", "workers": 0, "dependsOn": ["other"]},
        "other": {"script": "nowhere.py"},
        "others": [],
    }
    document = {"config": {"slipway:jobs": jobs}}
    (folder / "Pulumi.mine.yaml").write_text(yaml.safe_dump(document))
    assert local.run_job("mine", "mine", sys.executable) == 0
    with pytest.raises(CommandError, match=r"nowhere\.py"):
        local.run_job("mine", "other", sys.executable)
    with pytest.raises(CommandError, match=r"slipway:jobs\.others: .* use a map"):
        local.run_job("mine", "others", sys.executable)


def test_a_script_alone_takes_settings_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "My Script.py").write_text("import slipway, sys; slipway.finish(n=len(sys.argv))")
    script, settings = str(tmp_path / "My Script.py"), ["workers=0", "require={n: {min: 3}}"]
    assert local.run_script(script, ["--x", "1"], settings, sys.executable) == 0
    assert local.run_script(script, ["--x"], settings, sys.executable) == 1
    settings += ["args=[--x, 1]", "workers=1"]  # what has an option of its own goes before
    assert local.run_script(script, [], settings, sys.executable, workers=0) == 0
    with pytest.raises(CommandError, match="--set workers is not allowed; use NAME=YAML"):
        local.run_script(script, settings=["workers"])
    with pytest.raises(CommandError, match=r"while scanning a double-quoted scalar .* unknown"):
        local.run_script(script, settings=[r'metrics={n: "\(([0-9]+)"}'])
    with pytest.raises(CommandError, match=r"slipway:jobs.my-script.workrs: there is no such key"):
        local.run_script(script, settings=["workrs=1"])
    old = shell_program(tmp_path / "python3", r"printf '/usr/bin/python3\n3\n9\n'")
    with pytest.raises(CommandError, match=r"python3 is Python 3.9; 3.10 or newer is required"):
        local.run_script(script, python=str(old))
    with pytest.raises(CommandError, match="no nowhere on PATH; choose one with --python"):
        local.run_script(script, python="nowhere")


def test_a_commands_python_is_the_given_one(tmp_path: Path) -> None:
    """Also in a shell, and if its folder has it under another name."""
    (tmp_path / "train.py").touch()
    python = tmp_path / "it's own"
    python.symlink_to(Path(sys.executable).resolve())
    number = "slipway.finish(own=sys.executable.count(chr(39)))"
    command = f"command=[sh, -c, 'python -c \"import slipway, sys; {number}\"']"
    settings = ["workers=0", command, "require={own: {min: 1}}"]
    assert local.run_script(str(tmp_path / "train.py"), [], settings, str(python)) == 0


def test_scripts_of_the_same_name_keep_their_own_checkpoints(tmp_path: Path) -> None:
    text = (
        "import os, pathlib, sys; at = pathlib.Path(os.environ['SLIPWAY_CHECKPOINT_DIR'])\n"
        "at.mkdir(parents=True); (at / 'step').touch(); sys.exit(1)\n"
    )
    settings = ["workers=0", "checkpoint={every: 5 steps}"]
    for name in ("a", "b"):
        script = tmp_path / name / "train.py"
        script.parent.mkdir()
        script.write_text(text)
        assert local.run_script(str(script), [], settings, sys.executable) == 1
    assert len([*state_dir().glob("local/train-*/kept/checkpoints/train/*/step")]) == 2
    lock = state_dir() / "local" / distinct(script) / "kept/checkpoints-of-train.lock"
    with locked(lock), pytest.raises(TimeoutError, match=r"checkpoints-of-train.*by process"):
        local.run_script(str(script), [], settings, sys.executable)


def test_a_local_rank_gets_the_users_environment_and_its_own_variables(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("SLIPWAY_OUTPUTS", "s3://elsewhere")
    monkeypatch.setenv("TOKEN", "secret")
    names = ["RANK", "HOME", "TOKEN", "WORLD_SIZE", "SLIPWAY_OUTPUTS", "SLIPWAY_JOB", "HOSTNAME"]
    program = f"import os; print('seen:', *[os.environ.get(each) for each in {names}])"
    (folder / "shows.py").write_text(program)
    run("shows", script="shows.py", workers=0, env={"TOKEN": {"secret": "hub", "key": "token"}})
    [log] = (state_dir() / "local").glob("*/runs/shows/*/0-*.log")
    seen = log.read_text().partition("seen: ")[2].split("\n")[0]
    assert seen == f"0 {os.environ['HOME']} secret 1 None shows shows-master-0"
