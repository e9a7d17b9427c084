"""How a job's program is started, as far as that needs no torch: one process."""

import errno
import json
import math
import os
import signal
import socket
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from slipway.events import SPOOL_BYTES, append
from slipway_trainer.agent import launch
from slipway_trainer.agent.mirror import Mirror
from tests.unit.images.trainer.container import SITE, Container, Ended, ended, line
from tests.unit.shell_program import shell_program

_BEGINS = """
import json, os, pathlib, signal, subprocess, sys, time, slipway
outputs = pathlib.Path(os.environ['SLIPWAY_OUTPUT_DIR'])
message = pathlib.Path(os.environ['TERMINATION_LOG'])
"""
_LEAVE = "(outputs / 'model').touch()\n"
_WRITES = "(outputs / 'metrics.json').write_text({!r})\n"


class Launched(Container):
    """The launcher with a program in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.outputs, self.copies = directory / "outputs", directory / "copies"
        variables = {"SLIPWAY_OUTPUT_DIR": str(self.outputs), "SLIPWAY_RUN_ID": "run-1"}
        super().__init__(directory, directory, **variables)

    def copying(self) -> "Launched":
        """Let it copy the outputs out, as rank 0."""
        self.environment |= {"SLIPWAY_OUTPUTS": f"file://{self.copies}", "RANK": "0"}
        return self

    def keeping(self) -> "Launched":
        """Let it keep the outputs where its stack keeps all jobs' files."""
        self.environment["SLIPWAY_KEPT"] = f"file://{self.copies}"
        return self

    def run(self, text: str, code: int = 0) -> Ended:
        """Run a program to its end, with this exit code."""
        self.log.write_text("")
        return ended(self.launch(_BEGINS + text), code)

    def command(self, *words: str, code: int = 0) -> Ended:
        """Run a job's command; `tool` is one that starts a script as two ranks, as torchrun."""
        self.log.write_text("")
        self.program(
            "tool",
            'for rank in 0 1; do RANK=$rank python3 "$@" & pids="$pids $!"; done\n'
            "code=0\nfor pid in $pids; do wait $pid || code=1; done\nexit $code\n",
        )
        self.environment["PYTHONPATH"] += f":{SITE}"
        launch = ("-m", "slipway_trainer.launch", "--processes", "2", "--command", "--")
        return ended(self.start(*launch, *words), code)

    def program(self, name: str, script: str) -> None:
        """Have a program on PATH."""
        file = shell_program(self.directory / "bin" / name, script)
        self.environment["PATH"] = f"{file.parent}:{self.environment['PATH']}"


@pytest.fixture
def launched(tmp_path: Path) -> Launched:
    return Launched(tmp_path)


def test_numbers_of_metrics_json_are_in_the_message(launched: Launched) -> None:
    """The numbers in a script's `metrics.json` are in its result, unless `slipway` has them."""
    numbers = '{"val_loss": 9, "perplexity": 12.4, "note": "x", "bad": NaN}'
    tells = "slipway.finish(val_loss=0.25, accuracy=0.9)"
    _, err = launched.run(_WRITES.format(numbers) + tells)
    metrics = launched.message["metrics"]
    assert math.isnan(metrics.pop("bad")), "a gate has to know it"
    assert metrics == {"val_loss": 0.25, "perplexity": 12.4, "accuracy": 0.9}
    assert launched.message["rank"] == 0
    assert "note='x' is ignored" in err
    launched.run(f"{_WRITES.format(numbers)}slipway.finish(a=0.25); raise ValueError('then')", 1)
    assert launched.message["error"] == "ValueError: then"
    assert launched.message["traceback"].startswith("Traceback")
    assert "metrics" not in launched.message, "of a failure the error counts"
    for odd in ("'[1]'", "'[' * 2**20 + ']' * 2**20"):
        _, err = launched.run(f"(outputs / 'metrics.json').write_text({odd})")
        assert "it is not a JSON map of numbers" in err
        assert launched.log.read_text() == ""


def test_a_program_without_numbers_and_files_has_its_cpu_time(launched: Launched) -> None:
    launched.run("while time.process_time() < 0.6: pass")
    assert launched.message["cpu_seconds"] >= 0.6
    launched.run(_LEAVE)
    assert launched.log.read_text() == ""


def test_a_single_process_finds_what_torchrun_would_have_set_and_no_tracking(
    launched: Launched,
) -> None:
    pod = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "run-1", "NODE_RANK": "7"}
    launched.environment |= pod
    count = "subprocess.check_output(['pgrep', '-cP', str(os.getppid())]).decode()"
    [found] = launched.run(f"print(json.dumps(dict(os.environ, count={count})))").events
    world = {"GROUP_RANK": "1", "ROLE_RANK": "1", "GROUP_WORLD_SIZE": "2", "ROLE_WORLD_SIZE": "2"}
    never = {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0"}
    assert found.items() >= {**pod, **world, **never}.items(), "what is set stays"
    assert found["count"].strip() == "1", "no process is beside it"
    assert "SLIPWAY_EVENTS" not in found, "and no file"


def test_a_stopped_job_has_two_seconds_to_send(launched: Launched) -> None:
    """Kubernetes kills it soon after, and its message and files are to be left before that."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        launched.environment |= {"SLIPWAY_TRACKING": "mlflow", "SLIPWAY_TRACKING_URL": url}
        began = time.monotonic()
        out, _ = launched.run("slipway.log(a=1); raise SystemExit(143)", 143)
    assert time.monotonic() - began < 5
    assert '"the run, 1 events did not reach' in out
    assert "error" in launched.message


def test_events_are_kept_for_tracking_where_there_is_room_for_them(tmp_path: Path) -> None:
    spool = tmp_path / "events.jsonl"
    append(spool, "lost\n")
    assert not spool.exists(), "it was removed; the program goes on"
    spool.touch()
    append(spool, "one\n")
    assert spool.read_text() == "one\n"
    os.truncate(spool, SPOOL_BYTES)
    append(spool, "lost\n")
    assert spool.stat().st_size == SPOOL_BYTES


@pytest.mark.parametrize("code", [0, 5])
def test_a_programs_files_are_copied_and_named_in_its_message(
    launched: Launched, code: int
) -> None:
    """Of a success and a failure, whose own code and message stay."""
    done = launched.copying().run(
        "(outputs / 'model.pt').write_text('weights')\n"
        f'message.write_text(\'{{"error": "ValueError: x"}}\'); raise SystemExit({code})',
        code,
    )
    copy = launched.copies / "run-1/model.pt"
    entry = {"url": f"file://{copy}", "sha256": sha256(b"weights").hexdigest(), "bytes": 7}
    assert copy.read_text() == "weights"
    assert launched.message["artifacts"].keys() == {"artifacts.json", "model.pt"}
    assert launched.message["artifacts"]["model.pt"] == entry
    assert launched.message["error"] == "ValueError: x"
    assert [event["event"] for event in done.events] == ["artifact", "artifacts"]


_ELASTIC = {"PET_RDZV_ENDPOINT": "job-worker-0:23456", "HOSTNAME": "job-worker-2", "RANK": ""}


@pytest.mark.parametrize(
    ("pod", "code", "folder"),
    [
        ({"RANK": "2"}, 0, "run-1/replica-2"),
        (_ELASTIC, 0, "run-1"),  # who ends well as rank 0 has the result
        (_ELASTIC, 3, "run-1/replica-2"),
    ],
    ids=["a Worker", "an elastic rank 0", "an elastic worker that failed"],
)
def test_other_replicas_copy_into_a_folder_of_their_own(
    launched: Launched, pod: dict[str, str], code: int, folder: str
) -> None:
    launched.copying().environment |= pod
    launched.run("print('nothing to keep')")
    assert not (launched.copies / "run-1").exists(), "nothing was left in the output directory"
    rank = pod["RANK"] or "0"
    leaves = f"(outputs / 'log').touch(); message.write_text('{{\"rank\": {rank}}}')"
    launched.run(f"{leaves}; raise SystemExit({code})", code)
    assert (launched.copies / folder / "log").exists()


@pytest.mark.parametrize("is_optional", [False, True])
def test_a_copy_that_fails_fails_a_success_unless_it_is_optional(
    launched: Launched, is_optional: bool
) -> None:
    """After a failure the job's checkpoints stay, so that a retry trains nothing again."""
    launched.copies.touch()
    checkpoints = launched.directory / "kept" / ("a" * 16)
    checkpoints.mkdir(parents=True)
    launched.environment["SLIPWAY_CHECKPOINT_DIR"] = str(checkpoints)
    done = launched.keeping().run(_LEAVE) if is_optional else launched.copying().run(_LEAVE, 1)
    text = f"could not be copied to file://{launched.copies}"
    assert done.events[-1]["event"] == "warning", "which `make up` shows"
    assert text in done.events[-1]["warning"]
    assert is_optional or text in launched.message["error"]
    assert checkpoints.exists() == (not is_optional)


def test_a_jobs_own_place_is_never_cleared_and_the_stacks_keeps_the_last_runs(
    launched: Launched,
) -> None:
    launched.copies.mkdir()
    (launched.copies / "notes.txt").touch()
    for run, code in enumerate([0, 3, 0], 1):
        launched.keeping().environment["SLIPWAY_RUN_ID"] = f"run-{run}"
        launched.environment |= {"SLIPWAY_SUCCEEDED": "run-1"} if run > 1 else {}
        launched.run(f"{_LEAVE}raise SystemExit({code})", code)
        url = launched.message["artifacts"]["model"]["url"]
        assert url == f"file://{launched.copies}/run-{run}/model"
        left = {path.name for path in launched.copies.iterdir()}
        assert left == {"run-1", f"run-{run}", "notes.txt"}, "what else lies there stays"
    launched.copying().environment |= {"SLIPWAY_KEPT": "file:///nowhere", "SLIPWAY_RUN_ID": "run-4"}
    launched.run(_LEAVE)
    assert {path.name for path in launched.copies.glob("run-*")} == {"run-1", "run-3", "run-4"}


def test_signals_reach_the_program_and_its_files_are_copied_still(launched: Launched) -> None:
    """But not over those of a failure, after which the kubelet started the container again."""
    (launched.directory / "work").mkdir()
    launched.copying().environment["SLIPWAY_ROOT"] = str(launched.directory)
    for start in ("first", "second"):
        process = launched.launch(
            f"{_BEGINS}signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
            f"(outputs / 'model').write_text('{start}')\n"
            "print('ready', flush=True); time.sleep(30)\n"
        )
        assert line(process) == "ready\n"
        process.send_signal(signal.SIGTERM)
        ended(process, 9)
    assert (launched.copies / "run-1/model").read_text() == "first"


@pytest.mark.parametrize("is_in_shells", [False, True])
def test_a_program_that_ends_well_on_sigterm_has_not_succeeded(
    launched: Launched, is_in_shells: bool
) -> None:
    """It may have stopped early, so its checkpoints stay. Shells, which end at once, pass it on."""
    program = f"{sys.executable} train.py"
    command = ["sh", "-c", f"sh -c '{program}; true'; true"] if is_in_shells else program.split()
    (launched.directory / "train.py").write_text(
        f"{_BEGINS}def end(*_): time.sleep(0.5); {_LEAVE.strip()}; sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(30)\n"
    )
    launched.keeping().environment |= {"SLIPWAY_CHECKPOINT_DIR": str(launched.outputs), "RANK": "0"}
    launched.environment["SLIPWAY_ROOT"] = str(launched.directory)
    process = launched.start("-m", "slipway_trainer.launch", "--command", "--", *command)
    assert line(process) == "ready\n"
    process.terminate()
    ended(process, 143)
    assert launched.message["error"] == "the program was terminated by SIGTERM"
    assert launched.outputs.exists()
    assert {path.name for path in launched.copies.glob("run-1/*")} == {"model", "artifacts.json"}


def test_a_full_volume_keeps_no_part_of_a_runs_files(
    launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be full for all later runs."""

    def put(_own: object, _files: object, targets: list[str]) -> None:
        Path(targets[0]).write_text("a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalFileSystem, "put", put)
    monkeypatch.setattr(launch, "WORK", launched.directory)
    monkeypatch.setenv("SLIPWAY_RUN_ID", "run-2")
    for folder in (launched.outputs, launched.copies / "run-1"):
        folder.mkdir(parents=True)
    (launched.outputs / "model").touch()
    launch._copy(launched.outputs, f"file://{launched.copies}", 0, {}, Mirror(launched.log, ""))
    assert [path.name for path in launched.copies.iterdir()] == ["run-1"]


def test_a_rank_that_failed_is_held_with_its_environment(launched: Launched) -> None:
    """What a shell starts there does not replace the message."""
    launched.program("sleep", 'echo "$1 $RANK ${SLIPWAY_MESSAGE_DIR:+elsewhere}"')
    launched.environment |= {"SLIPWAY_HOLD": "600", "RANK": "1"}
    event, held = launched.run("raise ValueError('a bad value')", 1).out.splitlines()
    assert held == "600 1 elsewhere"
    end = json.loads(event)["terminated"]
    assert (end["exitCode"], json.loads(end["message"])) == (1, launched.message)


def test_of_a_pods_processes_the_one_that_failed_is_held(launched: Launched) -> None:
    launched.program("sleep", 'echo "$1 $RANK"')
    launched.environment |= {"SLIPWAY_HOLD": "600", "RANK": "0"}
    script = """message.write_text('{"rank": 1, "error": "x"}'); raise SystemExit(5)"""
    event, held = launched.run(script, 5).out.splitlines()
    assert (json.loads(event)["rank"], held) == (1, "600 1")


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("os.kill(os.getpid(), 9)", 137)], ids=["success", "killed"]
)
def test_only_what_failed_by_itself_is_held(launched: Launched, text: str, code: int) -> None:
    launched.environment["SLIPWAY_HOLD"] = "600"
    launched.run(text, code)


def test_a_rank_that_cannot_be_debugged_names_the_package(launched: Launched) -> None:
    launched.environment |= {"SLIPWAY_DEBUG": "0", "RANK": "0"}
    (launched.directory / "debugpy.py").write_text("raise ModuleNotFoundError('no debugpy')")
    launched.run("print('runs')", 1)
    assert launched.message["error"] == "ModuleNotFoundError: no debugpy"
    launched.environment["RANK"] = "1"
    assert launched.run("print('runs', sys.argv[1:])") == ("runs ['--x']\n", "")


@pytest.mark.parametrize(("code", "rank", "stays"), [(0, 0, False), (0, 1, True), (3, 0, True)])
def test_a_success_leaves_no_checkpoint(
    launched: Launched, code: int, rank: int, stays: bool
) -> None:
    """Those of the job's other declarations go at the start, and nothing else does."""
    kept = launched.directory / "kept"
    own, other, theirs = (kept / name for name in ("a" * 16, "b" * 16, "notes"))
    for directory in (own, other, theirs):
        directory.mkdir(parents=True)
    launched.environment |= {"SLIPWAY_CHECKPOINT_DIR": str(own), "RANK": str(rank)}
    launched.run(f"raise SystemExit({code})", code)
    assert (own.exists(), other.exists(), theirs.exists()) == (stays, rank != 0, True)


def test_rank_0s_pod_leaves_none_either_if_another_of_its_ranks_has_the_numbers(
    launched: Launched,
) -> None:
    kept = launched.directory / "kept" / ("a" * 16)
    kept.mkdir(parents=True)
    launched.environment |= {"SLIPWAY_CHECKPOINT_DIR": str(kept), "RANK": "0"}
    text = "import os, slipway\nif os.environ['RANK'] == '1': slipway.log(a=1)\n"
    (launched.directory / "train.py").write_text(text)
    launched.command("tool", "train.py")
    assert launched.message == {"rank": 0, "metrics": {"a": 1}}
    assert not kept.exists()


def test_files_are_copied_meanwhile_and_listed_at_the_end(launched: Launched) -> None:
    """With `outputsEvery`, which is no part of what is trained."""
    launched.copying().environment["SLIPWAY_OUTPUTS_EVERY"] = "0.1"
    copies = launched.copies / "run-1"
    launched.run(
        f"(outputs / 'first').touch(); copy = pathlib.Path('{copies}/first')\n"
        "while not copy.exists(): time.sleep(0.02)\n"
        "assert not copy.with_name('artifacts.json').exists(), 'not all is copied yet'\n"
        "(outputs / 'last').touch()\n"
    )
    assert json.loads((copies / "artifacts.json").read_text()).keys() == {"first", "last"}


def test_a_stores_checkpoints_are_fetched_copied_and_removed(launched: Launched) -> None:
    own = launched.directory / "store/slipway/dev/mine" / ("a" * 16)
    of_another_declaration = own.with_name("b" * 16)
    of_another_declaration.mkdir(parents=True)
    launched.environment["SLIPWAY_CHECKPOINT_URL"] = f"file://{own}"
    found = []
    for attempt, code in enumerate((3, 3, 0, 3)):
        # A new pod has an empty directory.
        launched.environment["SLIPWAY_CHECKPOINT_DIR"] = f"{launched.directory}/work-{attempt}"
        done = launched.run(
            "directory = pathlib.Path(os.environ['SLIPWAY_CHECKPOINT_DIR'])\n"
            "done = max((int(path.name) for path in directory.iterdir()), default=0)\n"
            "print('from', done, flush=True)\n"
            f"(directory / str(done + 1)).write_text('state')\nsys.exit({code})\n",
            code,
        )
        found.append(done.out.split()[1])
        assert own.exists() == (code != 0)
    # What has come to its end is not gone on with.
    assert found == ["0", "1", "2", "0"]
    assert not of_another_declaration.exists()


def test_unreadable_checkpoints_end_the_job(launched: Launched) -> None:
    launched.environment |= {
        "SLIPWAY_CHECKPOINT_DIR": str(launched.directory / "work"),
        "SLIPWAY_CHECKPOINT_URL": f"nowhere://store/{'a' * 16}",
    }
    assert "started" not in launched.run("print('started')", 1).out
    assert "the checkpoints in nowhere://store" in launched.message["error"]


def test_a_commands_numbers_and_files_are_a_scripts(launched: Launched) -> None:
    """A command starts its processes itself."""
    launched.copying().environment["SLIPWAY_KEEP"] = '["*.pt"]'
    (launched.directory / "train.py").write_text(
        "import os, slipway\nopen('model.pt', 'w').close()\n"
        "slipway.finish(accuracy=0.9, rank_of=int(os.environ['RANK']))\n"
    )
    launched.command("tool", "train.py")
    assert launched.message["metrics"] == {"accuracy": 0.9, "rank_of": 0}, "rank 0's"
    assert (launched.copies / "run-1/model.pt").exists()
    assert launched.command("echo", "once").out.startswith("once\n{")


def test_of_a_command_the_exception_of_what_it_started_is_the_error(launched: Launched) -> None:
    text = "import os, time\nif os.environ['RANK'] == '1': raise ValueError('label 11')\n"
    (launched.directory / "train.py").write_text(f"{text}time.sleep(1)\n")
    launched.command("tool", "train.py", code=1)
    assert launched.message["error"] == "ValueError: label 11"
    assert launched.message["at"] == "train.py:2"
    launched.command("sh", "-c", "exit 7", code=7)
    assert "exited with code 7" in launched.message["error"]
    launched.command("accelerate", "launch", "train.py", code=127)
    assert launched.message["error"].startswith("accelerate is no program on PATH: one word per")


def test_a_drill_kills_a_program_that_only_prints_its_steps(launched: Launched) -> None:
    (launched.directory / "tmp").mkdir()
    launched.environment |= {
        "SLIPWAY_DRILL": "0 2",
        "SLIPWAY_ROOT": str(launched.directory),
        "SLIPWAY_METRICS": json.dumps({"step": r"step (\d+)", "loss": r"loss (\S+)"}),
    }
    text = (
        "import time\nfor i in range(1, 4):\n"
        "    print(f'step {i} loss 1', flush=True)\n    time.sleep(0.5)\n"
    )
    killed = launched.run(text, 128 + signal.SIGKILL)
    assert '"event": "drilled", "rank": 0' in killed.out
    launched.run(text)  # the container that is started in its place
