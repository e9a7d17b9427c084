"""How a job's program is started, as far as that needs no torch: one process."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT
from slipway.events import SPOOL_BYTES, append

_LIMIT_SECONDS = 20


class Launched:
    """The launcher with a program in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.outputs = directory / "outputs"
        self.copies = directory / "copies"
        self.log = directory / "termination-log"
        self.log.touch()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CHECKOUT / "images/trainer"),
            "SLIPWAY_OUTPUT_DIR": str(self.outputs),
            "SLIPWAY_RUN_ID": "run-1",
            "TERMINATION_LOG": str(self.log),
        }

    def copying(self, rank: int = 0) -> "Launched":
        """Let it copy the outputs out, as the given replica."""
        self.environment |= {"SLIPWAY_OUTPUTS": f"file://{self.copies}", "RANK": str(rank)}
        return self

    def keeping(self) -> "Launched":
        """Let it keep the outputs where its stack keeps all jobs' files."""
        self.environment["SLIPWAY_KEPT"] = f"file://{self.copies}"
        return self

    def start(self, text: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a program with this text."""
        script = self.directory / "script.py"
        script.write_text(text)
        return subprocess.Popen(
            [sys.executable, "-m", "slipway_trainer.launch", *arguments, "--", str(script), "--x"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, text: str, *arguments: str) -> tuple[int, str, str]:
        """Run a program to its end; return the exit code and what was printed."""
        process = self.start(text, *arguments)
        out, err = process.communicate(timeout=_LIMIT_SECONDS)
        return process.returncode, out, err

    @property
    def message(self) -> dict[str, object]:
        """The termination message."""
        message: dict[str, object] = json.loads(self.log.read_text())
        return message


@pytest.fixture
def launched(tmp_path: Path) -> Launched:
    return Launched(tmp_path)


def test_the_images_own_single_process_takes_the_launchers_place(launched: Launched) -> None:
    (launched.directory / "module.py").write_text("import os, sys; print(os.getpid(), sys.argv)")
    launched.environment["PYTHONPATH"] += f":{launched.directory}"
    process = subprocess.Popen(
        [sys.executable, "-m", "slipway_trainer.launch", "--", "-m", "module", "--x"],
        env=launched.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate(timeout=_LIMIT_SECONDS)
    assert out == f"{process.pid} ['{launched.directory / 'module.py'}', '--x']\n"
    assert launched.outputs.is_dir()


_WRITES = """
import os
open(os.environ['SLIPWAY_OUTPUT_DIR'] + '/metrics.json', 'w').write('{}')
"""


@pytest.mark.parametrize("copying", [False, True])
def test_numbers_of_metrics_json_are_in_the_message(launched: Launched, copying: bool) -> None:
    """The numbers in a script's `metrics.json` are in its result."""
    if copying:
        launched.copying()
    numbers = '{"val_loss": 0.31, "accuracy": 1, "note": "x", "bad": NaN}'
    code, _, err = launched.run(_WRITES.format(numbers))
    assert code == 0, err
    metrics = launched.message["metrics"]
    assert isinstance(metrics, dict)
    assert math.isnan(metrics.pop("bad")), "a gate has to know it"
    assert metrics == {"val_loss": 0.31, "accuracy": 1}
    assert launched.message["rank"] == 0
    assert "note='x' is ignored" in err


def test_metrics_reported_to_slipway_win_over_metrics_json(launched: Launched) -> None:
    tells = "import slipway; slipway.finish(val_loss=0.25, accuracy=0.9)"
    code, _, err = launched.run(_WRITES.format('{"val_loss": 9, "perplexity": 12.4}') + tells)
    assert code == 0, err
    assert launched.message["metrics"] == {"val_loss": 0.25, "perplexity": 12.4, "accuracy": 0.9}


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "no JSON", "[" * 2**20 + "]" * 2**20, "[" * 3000, '{"a": ' * 900 + "1" + "}" * 900],
    ids=range(6),
)
def test_a_metrics_json_that_is_no_map_is_passed_over(launched: Launched, content: str) -> None:
    (launched.directory / "content").write_text(content)
    copied = f"import os, shutil; shutil.copy('{launched.directory}/content', "
    code, _, err = launched.run(copied + "os.environ['SLIPWAY_OUTPUT_DIR'] + '/metrics.json')")
    assert code == 0, err
    assert "it is not a JSON map of numbers" in err
    assert launched.log.read_text() == ""


def test_a_program_without_numbers_and_files_has_its_cpu_time(launched: Launched) -> None:
    busy = "import time\nwhile time.process_time() < 0.6: pass\n"
    assert launched.run(busy)[0] == 0
    assert launched.message["cpu_seconds"] >= 0.6  # type: ignore[operator]
    launched.log.write_text("")
    launched.run("import os\nopen(os.environ['SLIPWAY_OUTPUT_DIR'] + '/model', 'w').close()")
    assert launched.log.read_text() == ""


def test_of_a_program_that_failed_the_error_counts_and_no_numbers(launched: Launched) -> None:
    tells = "import slipway; slipway.finish(val_loss=0.25); raise ValueError('then this')"
    code, _, _ = launched.run(_WRITES.format('{"val_loss": 9}') + tells)
    assert code == 1
    assert launched.message["error"] == "ValueError: then this"
    assert "metrics" not in launched.message


def test_a_message_that_its_container_cannot_hold_is_whole_in_the_log(launched: Launched) -> None:
    code, out, err = launched.copying().run(
        "import slipway\n"
        "for epoch in range(1, 1001): slipway.log(epoch=epoch, val_loss=1 / epoch)\n"
        "slipway.finish(accuracy=0.9)\n"
    )
    assert code == 0, err
    assert launched.message["cut"] == ["epoch_metrics"]
    [whole] = [each["summary"] for line in out.splitlines()
               if (each := json.loads(line))["event"] == "summary"]  # fmt: skip
    assert whole["epoch_metrics"] == {"val_loss": [1 / epoch for epoch in range(1, 1001)]}
    assert whole["metrics"] == launched.message["metrics"] == {"val_loss": 0.001, "accuracy": 0.9}


def test_a_single_process_finds_what_torchrun_would_have_set(launched: Launched) -> None:
    pod = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "run-1", "NODE_RANK": "7"}
    launched.environment |= pod
    _, out, _ = launched.run("import json, os; print(json.dumps(dict(os.environ)))")
    found = json.loads(out)
    assert found["GROUP_RANK"] == found["ROLE_RANK"] == "1"
    assert found["GROUP_WORLD_SIZE"] == found["ROLE_WORLD_SIZE"] == "2"
    assert found["TORCHELASTIC_RESTART_COUNT"] == found["TORCHELASTIC_MAX_RESTARTS"] == "0"
    assert found["NODE_RANK"] == "7", "what is set stays"


def test_without_tracking_there_is_no_file_and_no_process(launched: Launched) -> None:
    code, out, err = launched.run(
        "import os, subprocess\n"
        "print(os.environ.get('SLIPWAY_EVENTS'))\n"
        "print(subprocess.check_output(['pgrep', '-cP', str(os.getppid())]).decode())\n"
    )
    assert (code, out.split()) == (0, ["None", "1"]), err


def test_a_server_that_cannot_be_had_is_a_warning_and_costs_no_time(launched: Launched) -> None:
    """Here tensorboardX is not installed."""
    launched.environment["SLIPWAY_TRACKING"] = "tensorboard"
    began = time.monotonic()
    code, out, err = launched.run("import slipway; slipway.finish(accuracy=0.9)")
    assert code == 0, err
    [warning] = [json.loads(line) for line in out.splitlines()]
    assert warning["event"] == "warning"
    assert "add tensorboardX to the job's `requirements`" in warning["warning"]
    assert launched.message == {"rank": 0, "metrics": {"accuracy": 0.9}}
    assert time.monotonic() - began < 5


def test_a_stopped_job_has_two_seconds_to_send(launched: Launched) -> None:
    """Kubernetes kills it soon after, and its message and files are to be left before that."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        launched.environment |= {"SLIPWAY_TRACKING": "mlflow", "SLIPWAY_TRACKING_URL": url}
        began = time.monotonic()
        code, out, _ = launched.run("import slipway; slipway.log(a=1); raise SystemExit(143)")
    assert code == 143
    assert time.monotonic() - began < 5
    assert '"the run, 1 events did not reach' in out
    assert "error" in launched.message


def test_events_are_kept_for_tracking_where_there_is_room_for_them(tmp_path: Path) -> None:
    spool = tmp_path / "events.jsonl"
    append(spool, "lost\n")
    assert not spool.exists(), "it was removed; the program goes on"
    spool.touch()
    append(spool, "one\n")
    append(spool, "two\n")
    assert spool.read_text() == "one\ntwo\n"
    with spool.open("ab") as file:
        file.truncate(SPOOL_BYTES)
    append(spool, "lost\n")
    assert spool.stat().st_size == SPOOL_BYTES


def test_it_imports_neither_torch_nor_fsspec(launched: Launched) -> None:
    show = "import sys, slipway_trainer.launch; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", show],
        env=launched.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"torch", "fsspec", "asyncio"} & set(done.stdout.split())


_LEAVES_ODD_FILES = """
import os
out = os.fsencode(os.environ["SLIPWAY_OUTPUT_DIR"])
for name in (b"model.pt", b"caf\\xe9.txt"):
    open(out + b"/" + name, "wb").write(b"x" * 10)
os.makedirs(out + b"/ckpt-3")
os.symlink("ckpt-3", out + b"/latest")
os.mkfifo(out + b"/pipe")
"""


@pytest.mark.parametrize(
    "message", ["[[[[", "[" * 3000, "NaN", "\\xff", '{"accuracy": NaN}'], ids=range(5)
)
def test_odd_files_and_no_message_are_a_success(launched: Launched, message: str) -> None:
    leaves = f"open(os.environ['TERMINATION_LOG'], 'wb').write(b'{message}')"
    code, out, err = launched.copying().run(_LEAVES_ODD_FILES + leaves)
    assert code == 0, err
    listed = launched.message["artifacts"]
    assert isinstance(listed, dict)
    assert sorted(listed) == ["artifacts.json", "model.pt"]
    assert "'caf\\udce9.txt', 'latest', 'pipe'" in json.loads(out.splitlines()[0])["warning"]


def test_what_the_program_wrote_is_copied_and_named_in_its_message(launched: Launched) -> None:
    code, out, err = launched.copying().run(
        "import json, os, pathlib\n"
        "pathlib.Path(os.environ['SLIPWAY_OUTPUT_DIR'], 'model.pt').write_bytes(b'weights')\n"
        "pathlib.Path(os.environ['TERMINATION_LOG']).write_text(json.dumps({'accuracy': 0.9}))\n"
    )
    assert code == 0, err
    copy = launched.copies / "run-1/model.pt"
    entry = {
        "url": f"file://{copy}",
        "sha256": sha256(b"weights").hexdigest(),
        "bytes": len(b"weights"),
    }
    artifacts = launched.message["artifacts"]
    assert isinstance(artifacts, dict)
    assert copy.read_bytes() == b"weights"
    assert artifacts["model.pt"] == entry
    assert launched.message["accuracy"] == 0.9
    assert json.loads((copy.parent / "artifacts.json").read_text()) == {"model.pt": entry}
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["artifact", "artifacts"]


def test_other_replicas_copy_into_a_folder_of_their_own(launched: Launched) -> None:
    launched.copying(rank=2).run("print('nothing to keep')")
    assert not (launched.copies / "run-1").exists(), "nothing was left in the output directory"
    text = "import os; open(os.environ['SLIPWAY_OUTPUT_DIR'] + '/log', 'w').close()"
    assert launched.run(text)[0] == 0
    assert (launched.copies / "run-1/replica-2/log").exists()


@pytest.mark.parametrize(("code", "folder"), [(0, "run-1"), (3, "run-1/replica-2")])
def test_who_ends_well_as_rank_0_has_the_result(launched: Launched, code: int, folder: str) -> None:
    pod = {"PET_RDZV_ENDPOINT": "job-worker-0:23456", "HOSTNAME": "job-worker-2"}
    launched.copying().environment |= pod
    launched.run(
        "import os, pathlib\n"
        "pathlib.Path(os.environ['SLIPWAY_OUTPUT_DIR'], 'model.pt').touch()\n"
        "pathlib.Path(os.environ['TERMINATION_LOG']).write_text('{\"rank\": 0}')\n"
        f"raise SystemExit({code})\n"
    )
    assert (launched.copies / folder / "model.pt").exists()


def test_a_failed_programs_files_are_copied_and_its_code_and_error_stay(launched: Launched) -> None:
    code, _, _ = launched.copying().run(
        "import os, pathlib\n"
        "pathlib.Path(os.environ['SLIPWAY_OUTPUT_DIR'], 'partial').touch()\n"
        "pathlib.Path(os.environ['TERMINATION_LOG']).write_text('{\"error\": \"ValueError: x\"}')\n"
        "raise SystemExit(5)\n"
    )
    assert code == 5
    assert (launched.copies / "run-1/partial").exists()
    assert launched.message["error"] == "ValueError: x"


def test_an_error_without_a_message_is_read_from_the_log(launched: Launched) -> None:
    _, _, err = launched.copying().run("raise ValueError('a mistake')")
    assert err.rstrip().endswith("ValueError: a mistake")
    assert launched.message["error"] == "ValueError: a mistake"
    assert str(launched.message["traceback"]).startswith("Traceback")


def test_a_process_that_outlives_the_program_is_not_waited_for(launched: Launched) -> None:
    began = time.monotonic()
    code, _, _ = launched.copying().run(
        "import subprocess, sys; subprocess.Popen(['sleep', '15'], stdout=2); sys.exit(3)"
    )
    assert code == 3
    assert time.monotonic() - began < 15


def test_a_copy_that_fails_fails_a_program_that_succeeded(launched: Launched) -> None:
    launched.copies.touch()
    text = "import os; open(os.environ['SLIPWAY_OUTPUT_DIR'] + '/model', 'w').close()"
    code, out, _ = launched.copying().run(text)
    assert code == 1
    assert f"could not be copied to file://{launched.copies}" in str(launched.message["error"])
    assert "could not be copied" in out


_LEAVE = "import os; open(os.environ['SLIPWAY_OUTPUT_DIR'] + '/model', 'w').close()\n"


def test_a_job_that_names_no_place_keeps_its_last_runs_files(launched: Launched) -> None:
    for run, text in enumerate(["", "raise SystemExit(3)", ""], 1):
        launched.keeping().environment["SLIPWAY_RUN_ID"] = f"run-{run}"
        launched.environment |= {"SLIPWAY_SUCCEEDED": "run-1"} if run > 1 else {}
        launched.run(_LEAVE + text)
        artifacts = launched.message["artifacts"]
        assert isinstance(artifacts, dict)
        assert artifacts["model"]["url"] == f"file://{launched.copies}/run-{run}/model"
        runs = {path.name for path in launched.copies.iterdir() if path.is_dir()}
        assert runs == {"run-1", f"run-{run}"}


def test_a_place_that_the_job_names_is_used_and_never_cleared(launched: Launched) -> None:
    launched.copying().environment["SLIPWAY_KEPT"] = "file:///nowhere"
    for run in ("run-1", "run-2"):
        launched.environment["SLIPWAY_RUN_ID"] = run
        assert launched.run(_LEAVE)[0] == 0
    assert {path.name for path in launched.copies.iterdir()} == {"run-1", "run-2"}


def test_a_failed_copy_of_optional_files_is_only_a_warning(launched: Launched) -> None:
    launched.copies.touch()
    code, out, _ = launched.keeping().run(_LEAVE)
    assert code == 0
    event = json.loads(out.splitlines()[-1])
    assert event["event"] == "warning", "which `make up` shows"
    assert f"could not be copied to file://{launched.copies}" in event["warning"]


def test_signals_reach_the_program_and_its_files_are_copied_still(launched: Launched) -> None:
    process = launched.copying().start(
        "import os, pathlib, signal, sys, time\n"
        "outputs = pathlib.Path(os.environ['SLIPWAY_OUTPUT_DIR'])\n"
        "def end(*_):\n"
        "    (outputs / 'saved').touch()\n"
        "    sys.exit(9)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "(outputs / 'ready').touch()\n"
        "time.sleep(30)\n"
    )
    await_file(launched.outputs / "ready")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=_LIMIT_SECONDS)
    assert process.returncode == 9
    assert (launched.copies / "run-1/saved").exists()


_FAILS = (
    "import pathlib, sys\n"
    "pathlib.Path('left').write_text('by the program')\n"
    "print('fails', flush=True)\n"
    "raise ValueError('a bad value')\n"
)


def held(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the event of a launcher that holds its pod."""
    assert process.stdout is not None
    for line in process.stdout:
        if '"event": "held"' in line:
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError(process.communicate())


def test_a_program_that_failed_leaves_its_place_until_sigterm(launched: Launched) -> None:
    launched.copying(rank=1).environment |= {"SLIPWAY_HOLD": "600", "OWN": "declared"}
    process = launched.start(_FAILS)
    event = held(process)
    ended = event["terminated"]
    until = datetime.strptime(f"{event['until']}+0000", "%Y-%m-%d %H:%M:%S UTC%z")
    assert 590 < (until - datetime.now(UTC)).total_seconds() < 601
    assert (ended["exitCode"], event["rank"]) == (1, 1)
    assert json.loads(ended["message"]) == launched.message, "as the kubelet is going to find it"
    assert launched.message["error"] == "ValueError: a bad value"
    assert datetime.fromisoformat(ended["finishedAt"]) <= datetime.now(UTC)
    deadline = time.monotonic() + _LIMIT_SECONDS
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    child = ""
    while not child or "sleep" not in Path(f"/proc/{child}/cmdline").read_text():
        assert time.monotonic() < deadline
        child = children.read_text().strip()
    variables = Path(f"/proc/{child}/environ").read_text().split("\0")
    assert {"RANK=1", "OWN=declared"} <= {*variables}
    told = [each for each in variables if each.startswith("SLIPWAY_MESSAGE_DIR=")]
    assert told, "what a shell starts there does not replace the message"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 1


def test_a_held_program_ends_by_itself_with_its_own_code(launched: Launched) -> None:
    launched.environment["SLIPWAY_HOLD"] = "1"
    began = time.monotonic()
    code, out, _ = launched.run("import sys; sys.exit(3)")
    assert code == 3
    assert time.monotonic() - began >= 1
    assert json.loads(out.splitlines()[-1])["terminated"]["exitCode"] == 3


_LOSES_A_PEER = (
    "class DistNetworkError(RuntimeError):\n    __module__ = 'torch.distributed'\n"
    "raise DistNetworkError('Connection reset by peer')"
)
_IS_STOPPED = (
    "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
    "os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(10)"
)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("import os; os.kill(os.getpid(), 9)", 137), (_LOSES_A_PEER, 1), (_IS_STOPPED, 9)],
    ids=["success", "killed", "lost its peer", "stopped"],
)
def test_nothing_else_is_held(launched: Launched, text: str, code: int) -> None:
    launched.environment["SLIPWAY_HOLD"] = "600"
    launched.environment["PYTHONPATH"] += f":{CHECKOUT / 'images/trainer/python'}"
    assert launched.run(text)[0] == code


def test_the_rank_to_debug_begins_under_debugpy_and_no_other(launched: Launched) -> None:
    launched.environment["PYTHONPATH"] += f":{launched.directory}"
    launched.environment |= {"SLIPWAY_DEBUG": "1", "RANK": "1"}
    (launched.directory / "debugpy.py").write_text(
        "import sys\nif __name__ == '__main__':\n    print('debugs', sys.argv[1:])\n"
    )
    script = str(launched.directory / "script.py")
    words = ["--listen", "127.0.0.1:5678", "--wait-for-client", script, "--x"]
    assert launched.run("print('runs')") == (0, f"debugs {words}\n", "")
    launched.environment["RANK"] = "0"
    assert launched.run("import sys; print('runs', sys.argv[1:])") == (0, "runs ['--x']\n", "")


def test_a_rank_without_debugpy_says_what_it_lacks(launched: Launched) -> None:
    launched.environment["PYTHONPATH"] += f":{launched.directory}"
    launched.environment |= {"SLIPWAY_DEBUG": "0", "RANK": "0"}
    error = "No module named 'debugpy'"
    (launched.directory / "debugpy.py").write_text(f"raise ModuleNotFoundError({error!r})")
    code, _, _ = launched.run("print('runs')")
    assert code == 1
    assert launched.message["error"] == f"ModuleNotFoundError: {error}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--processes", "0", "--", "x.py"], "--processes 0 is not allowed; it must be 1 or more"),
        (["--processes", "two", "--", "x.py"], "invalid int value: 'two'"),
        (["x.py"], "unrecognized arguments: x.py"),
        (["--"], "nothing to run"),
        (["--", "-m"], "nothing to run"),
    ],
)
def test_wrong_arguments_are_named(launched: Launched, arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slipway_trainer.launch", *arguments],
        env=launched.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(("code", "rank", "stays"), [(0, 0, False), (0, 1, True), (3, 0, True)])
def test_a_success_leaves_no_checkpoint(tmp_path: Path, code: int, rank: int, stays: bool) -> None:
    """Those of the job's other declarations go at the start, and nothing else does."""
    launched = Launched(tmp_path)
    own, other = (tmp_path / "kept" / (digit * 16) for digit in "ab")
    theirs = tmp_path / "kept" / "notes"
    for directory in (own, other, theirs):
        directory.mkdir(parents=True)
    launched.environment |= {"SLIPWAY_CHECKPOINT_DIR": str(own), "RANK": str(rank)}
    assert launched.run(f"raise SystemExit({code})")[0] == code
    assert own.exists() == stays
    assert other.exists() == (rank != 0)
    assert theirs.exists()


def test_files_are_copied_meanwhile_and_listed_at_the_end(launched: Launched) -> None:
    """With `outputsEvery`, which is no part of what is trained."""
    launched.copying().environment["SLIPWAY_OUTPUTS_EVERY"] = "0.1"
    process = launched.start(
        "import os, pathlib, time\n"
        "outputs = pathlib.Path(os.environ['SLIPWAY_OUTPUT_DIR'])\n"
        "(outputs / 'first').write_text('1')\n"
        "while not (outputs.parent / 'go on').exists(): time.sleep(0.02)\n"
        "(outputs / 'last').write_text('2')\n"
    )
    await_file(launched.copies / "run-1/first")
    assert not (launched.copies / "run-1/artifacts.json").exists(), "not all is copied yet"
    (launched.directory / "go on").touch()
    process.communicate(timeout=_LIMIT_SECONDS)
    assert process.returncode == 0
    listed = json.loads((launched.copies / "run-1/artifacts.json").read_text())
    assert listed.keys() == {"first", "last"}


def test_what_was_copied_before_a_kill_stays(launched: Launched) -> None:
    launched.keeping().environment["SLIPWAY_OUTPUTS_EVERY"] = "0.1"
    process = launched.start(
        _LEAVE + "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(30)"
    )
    assert process.stdout is not None
    program = int(process.stdout.readline())
    await_file(launched.copies / "run-1/model")
    process.kill()
    os.kill(program, signal.SIGKILL)
    process.communicate(timeout=_LIMIT_SECONDS)
    assert (launched.copies / "run-1/model").exists()


_STEPS = """
import os, pathlib, sys, time
directory = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
done = max((int(path.name) for path in directory.iterdir()), default=0)
print("from", done, flush=True)
(directory / str(done + 1)).write_text("state")
sys.exit({code})
"""


def test_a_stores_checkpoints_are_fetched_copied_and_removed(launched: Launched) -> None:
    """Each attempt has an empty directory, as a new pod does."""
    other, own = (launched.directory / "store" / (digit * 16) for digit in "ab")
    other.mkdir(parents=True)
    found = []
    for attempt, code in enumerate((3, 3, 0)):
        place = str(launched.directory / f"work-{attempt}")
        launched.environment |= {
            "SLIPWAY_CHECKPOINT_DIR": place,
            "SLIPWAY_CHECKPOINT_URL": f"file://{own}",
        }
        ended, out, err = launched.run(_STEPS.format(code=code))
        assert ended == code, err
        found.append(out.split()[1])
        assert own.exists() == (code != 0)
    assert found == ["0", "1", "2"]
    assert not other.exists(), "of another declaration"


def test_checkpoints_at_the_earlier_place_are_found_until_all_is_done(launched: Launched) -> None:
    """They may be another stack's: nothing there is changed or removed."""
    store = launched.directory / "store"
    shared, own = store / "mine" / ("a" * 16), store / "slipway/dev/mine" / ("a" * 16)
    of_others = shared.parent / ("b" * 16)
    for folder in (shared, of_others):
        folder.mkdir(parents=True)
        (folder / "5").write_text("state")
    launched.environment["SLIPWAY_CHECKPOINT_URL"] = f"file://{own}"
    launched.environment["SLIPWAY_CHECKPOINT_URL_BEFORE"] = f"file://{shared}"
    found = []
    for attempt, code in enumerate((3, 3, 0, 3)):
        place = launched.directory / f"work-{attempt}"
        launched.environment["SLIPWAY_CHECKPOINT_DIR"] = str(place)
        ended, out, err = launched.run(_STEPS.format(code=code))
        assert ended == code, err
        found.append(out.split()[1])
        assert own.exists() == (code != 0)
        # Were the old one copied at once, a pod that starts then could see a part of it.
        assert attempt > 0 or [path.name for path in own.iterdir()] == ["6"]
    assert found == ["5", "6", "7", "0"], "what has come to its end is not gone on with"
    assert [*shared.iterdir()] == [shared / "5"]
    assert of_others.exists()


def test_unreadable_checkpoints_end_the_job(launched: Launched) -> None:
    launched.environment |= {
        "SLIPWAY_CHECKPOINT_DIR": str(launched.directory / "work"),
        "SLIPWAY_CHECKPOINT_URL": f"nowhere://store/{'a' * 16}",
    }
    code, out, _ = launched.run("print('started')")
    assert code == 1
    assert "started" not in out
    assert "the checkpoints in nowhere://store" in str(launched.message["error"])


def await_file(path: Path) -> None:
    until = time.monotonic() + _LIMIT_SECONDS
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.02)


class _Commands:
    """A program `tool` on PATH that starts the script as two ranks, as torchrun does."""

    TOOL = """#!/bin/sh
for rank in 0 1; do RANK=$rank python3 "$@" & pids="$pids $!"; done
code=0
for pid in $pids; do wait $pid || code=1; done
exit $code
"""

    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        tool = launched.directory / "bin/tool"
        tool.parent.mkdir()
        tool.write_text(self.TOOL)
        tool.chmod(0o755)
        launched.environment["PATH"] = f"{tool.parent}:{launched.environment['PATH']}"

    def run(self, text: str, *command: str) -> tuple[int, str, str]:
        (self.launched.directory / "train.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "slipway_trainer.launch", "--command", "--", *command],
            env=self.launched.environment,
            cwd=self.launched.directory,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def commands(launched: Launched) -> _Commands:
    launched.environment["PYTHONPATH"] += f":{CHECKOUT / 'images/trainer/python'}"
    return _Commands(launched)


def test_a_commands_numbers_and_files_are_a_scripts(commands: _Commands) -> None:
    commands.launched.copying().environment["SLIPWAY_KEEP"] = '["*.pt"]'
    text = (
        "import os, sys, slipway\n"
        "slipway.finish(accuracy=0.9, rank_of=int(os.environ['RANK']))\n"
        "open('model.pt', 'w').close()\n"
    )
    code, _, err = commands.run(text, "tool", "train.py")
    assert code == 0, err
    metrics = commands.launched.message["metrics"]
    assert metrics == {"accuracy": 0.9, "rank_of": 0}, "rank 0's"
    assert (commands.launched.copies / "run-1/model.pt").exists()


def test_of_a_command_the_exception_of_what_it_started_is_the_error(commands: _Commands) -> None:
    text = "import os, time\nif os.environ['RANK'] == '1': raise ValueError('label 11')\n"
    code, _, _ = commands.run(text + "time.sleep(1)\n", "tool", "train.py")
    assert code == 1
    assert commands.launched.message["error"] == "ValueError: label 11"
    assert commands.launched.message["at"] == "train.py:2"
    commands.launched.log.write_text("")
    code, _, _ = commands.run("", "sh", "-c", "exit 7")
    assert code == 7
    assert "exited with code 7" in str(commands.launched.message["error"])


def test_a_command_that_is_not_there_is_named(commands: _Commands) -> None:
    code, _, _ = commands.run("", "accelerate", "launch", "train.py")
    assert code == 127
    error = str(commands.launched.message["error"])
    assert error == "there is no program accelerate on PATH; is its package in `requirements`?"


def test_a_command_starts_its_processes_itself(commands: _Commands) -> None:
    commands.launched.environment["SLIPWAY_OUTPUT_DIR"] = str(commands.launched.outputs)
    launch = (sys.executable, "-m", "slipway_trainer.launch", "--processes", "2", "--command", "--")
    done = subprocess.run(
        [*launch, "sh", "-c", "echo once"],
        env=commands.launched.environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=True,
    )
    assert done.stdout == "once\n"


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
    code, out, _ = launched.run(text)
    assert code == 128 + signal.SIGKILL
    assert '"event": "drilled", "rank": 0' in out
    assert launched.run(text)[0] == 0, "the container that is started in its place"
