"""What ended a program is known from the process itself: real Pythons, under the launcher."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.paths import CHECKOUT

_LIMIT_SECONDS = 30
_RAISE = "raise ValueError('label 11 is out of range')"
# As torch has them: https://github.com/pytorch/pytorch/blob/v2.6.0/torch/multiprocessing/spawn.py
# and torch/_utils.py.
_TORCH = {
    "torch/__init__.py": "",
    "torch/distributed/__init__.py": """
class DistError(RuntimeError): pass
class DistBackendError(DistError): pass
class DistNetworkError(DistError): pass
class DistStoreError(DistError): pass
def call(error): raise error
""",
    "torch/autograd.py": "def backward(error): raise error\n",
    "torch/loader.py": """
import traceback
def reraise(work):
    try:
        work()
    except Exception as error:
        said, kind = traceback.format_exc(), type(error)
    raise kind(f"Caught {kind.__name__} in DataLoader worker process 0.\\nOriginal {said}")
""",
    "torch/spawn.py": """
import multiprocessing, pickle, sys, tempfile, traceback
class ProcessRaisedException(Exception): pass
def _wrap(work, number, file):
    try:
        work(number)
    except Exception:
        with open(file, 'wb') as out:
            pickle.dump(traceback.format_exc(), out)
        sys.exit(1)
def spawn(work, count):
    context = multiprocessing.get_context('spawn')
    files = [tempfile.mktemp() for _ in range(count)]
    started = [context.Process(target=_wrap, args=(work, n, files[n])) for n in range(count)]
    for each in started: each.start()
    for each in started: each.join(20)
    for number, each in reversed(list(enumerate(started))):
        if each.exitcode:
            said = pickle.load(open(files[number], 'rb'))
            start = f"\\n\\n-- Process {number} terminated with the following error:\\n"
            raise ProcessRaisedException(start + said)
""",
    "hydra.py": """
import sys, traceback
def main(work):
    try:
        work()
    except Exception as error:
        sys.stderr.write(f"Error executing job with overrides: []\\n{error}\\n")
        sys.exit(1)
""",
}
"""Stand-ins of what wraps a user's error, for torch is in the trainer's image alone."""


class Program:
    """A script under the launcher, with the image's sitecustomize and these stand-ins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.message_file = directory / "termination-log"
        self.message_file.touch()
        for name, text in _TORCH.items():
            path = directory / "site-packages" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        image = CHECKOUT / "images/trainer"
        places = [image / "python", image, directory / "site-packages"]
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(map(str, places)),
            "TERMINATION_LOG": str(self.message_file),
        }

    def run(self, text: str, *, launched: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it to its end, beside the launcher or as the container's only process."""
        (self.directory / "train.py").write_text(text)
        self.message_file.write_text("")
        before = ["-m", "slipway_trainer.launch", "--"] if launched else []
        return subprocess.run(
            [sys.executable, *before, str(self.directory / "train.py")],
            env=self.environment, capture_output=True, text=True, check=False,
            timeout=_LIMIT_SECONDS,
        )  # fmt: skip

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.message_file.read_text() or "{}")
        return message


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


_NOISE = """
import sys, threading
def pinning():
    raise ConnectionResetError(104, 'Connection reset by peer')
def noise():
    thread = threading.Thread(target=pinning); thread.start(); thread.join()
class Held:
    def __del__(self): raise BrokenPipeError(32, 'Broken pipe')
"""
_CAUSES = {
    "plain": (f"\n{_RAISE}", 2),
    "its own hook": (f"import os, sys\nsys.excepthook = lambda *_: os._exit(1)\n{_RAISE}", 3),
    "a thread's error before": (f"{_NOISE}noise()\n{_RAISE}", 10),
    "a thread's error after": (
        (f"{_NOISE}show = sys.excepthook\ndef after(*what):\n    show(*what); noise()\n"
        f"sys.excepthook = after\n{_RAISE}"), 13),
    "a destructor": (f"{_NOISE}held = Held()\n{_RAISE}", 10),
    "semaphores left": (
        ("import multiprocessing\nmultiprocessing.set_start_method('spawn')\n"
        f"kept = [multiprocessing.Semaphore() for _ in range(3)]\n"
        f"multiprocessing.util._finalizer_registry.clear()\n{_RAISE}"), 5),
    "several lines": ("raise ValueError('label 11 is out of range\\nsee: the README\\nof it')", 1),
    "much after it": (
        f"import atexit, os\natexit.register(lambda: os.write(2, b'w' * 9**6))\n{_RAISE}", 3),
    "in a library": (
        ("import json\nclass Label:\n    def __init__(self):\n        pass\ndef fail(_):\n"
        f"    {_RAISE}\njson.dumps(Label(), default=fail)"), 6),
    "a DataLoader's worker": (
        f"from torch.loader import reraise\ndef item():\n    {_RAISE}\nreraise(item)", 3),
    "a pool's worker": (
        (f"import multiprocessing\ndef item(_):\n    {_RAISE}\n"
        "multiprocessing.get_context('fork').Pool(1).map(item, [1])"), 3),
    "a child of mp.spawn": (
        (f"from torch.spawn import spawn\ndef work(number):\n    {_RAISE}\n"
        "if __name__ == '__main__':\n    spawn(work, 1)"), 3),
    "a wrapper that exits": (
        f"import hydra\ndef work():\n    {_RAISE}\nhydra.main(work)", 3),
    "printed and exited": (
        (f"import sys, traceback\ntry:\n    {_RAISE}\nexcept ValueError:\n"
        "    traceback.print_exc()\n    sys.exit(1)"), 3),
    "printed and gone": (
        (f"import os, traceback\ntry:\n    {_RAISE}\nexcept ValueError:\n"
        "    traceback.print_exc()\n    os._exit(1)"), 3),
    "aborted at its end": (f"import atexit, os\natexit.register(os.abort)\n{_RAISE}", 3),
    "a helper failed before": (
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import nothing'])\n"
        f"{_RAISE}"), 3),
    "a message that quotes a traceback": (
        ("quoted = 'Traceback (most recent call last):\\n  File \"a.py\", line 1\\nKeyError: 1'\n"
        "raise ValueError('label 11 is out of range\\nin the report:\\n' + quoted)"), 2),
    "an error that writes its message": (
        ("import multiprocessing\nclass Bad(ValueError):\n"
        "    def __init__(self, label): super().__init__(f'label {label} is out of range')\n"
        "Bad.__qualname__ = Bad.__name__ = 'ValueError'\nValueError = Bad\ndef item(_):\n"
        "    raise Bad(11)\nmultiprocessing.get_context('fork').Pool(1).map(item, [1])"), 7),
    "torchrun's child": (
        ("import os\nos.environ['TORCHELASTIC_ERROR_FILE'] = os.environ['TERMINATION_LOG'] + '.e'\n"
        f"{_RAISE}"), 3),
}  # fmt: skip


@pytest.mark.parametrize("cause", _CAUSES)
def test_exception_and_users_line_are_known_in_any_wrapper(program: Program, cause: str) -> None:
    """A rank's error and the user's line are named, whatever wraps, follows or hides them.

    A hook of the program's own, threads, destructors, a message of several lines, a DataLoader's
    worker, `mp.spawn`, torchrun, Hydra, `sys.exit("text")`.
    """
    text, line = _CAUSES[cause]
    done = program.run(text)
    assert done.returncode != 0
    message = program.message
    assert message["error"].splitlines()[0] == "ValueError: label 11 is out of range", done.stderr
    assert message["at"] == f"train.py:{line}", message
    assert message["from"] == "program"


@pytest.mark.parametrize("cause", ["plain", "its own hook", "a wrapper that exits"])
def test_a_containers_only_process_leaves_its_message(program: Program, cause: str) -> None:
    text, line = _CAUSES[cause]
    program.run(text, launched=False)
    assert program.message["error"] == "ValueError: label 11 is out of range"
    assert program.message["at"] == f"train.py:{line}"


def test_a_text_that_ends_a_program_is_its_error(program: Program) -> None:
    done = program.run("import sys\n\nsys.exit('no data in /data')")
    assert (done.returncode, done.stderr) == (1, "no data in /data\n")
    assert program.message["error"] == "no data in /data"
    assert program.message["at"] == "train.py:3"
    program.run(
        "import os, sys\nos.environ['TORCHELASTIC_ERROR_FILE'] = 'nowhere/e'\ntry:\n    int('x')\n"
        "except ValueError:\n    sys.exit('no number')"
    )
    assert (program.message["error"], program.message["at"]) == ("no number", "train.py:6")


def test_a_syntax_error_has_the_line_that_is_wrong(program: Program) -> None:
    (program.directory / "model.py").write_text("layers = 3\nwidth = = 4\n")
    program.run("import model")
    assert program.message["at"] == "model.py:2"


def test_what_argparse_refuses_is_the_error(program: Program) -> None:
    program.run(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lr', required=True)\nparser.parse_args()"
    )
    expected = "train.py: error: the following arguments are required: --lr"
    assert program.message["error"] == expected


def test_what_led_to_an_error_is_recorded_with_it(program: Program) -> None:
    program.run(
        "try:\n    {}['label']\nexcept KeyError as error:\n    raise ValueError('bad') from error\n"
    )
    assert program.message["error"] == "ValueError: bad"
    assert program.message["causes"] == ["KeyError: 'label'"]
    assert program.message["at"] == "train.py:4"


def test_of_a_group_the_exception_that_comes_from_the_program_is_named(program: Program) -> None:
    program.run(
        "from torch.distributed import DistBackendError\n"
        "raise ExceptionGroup('training', [DistBackendError('remote'), ValueError('label 11')])\n"
    )
    error = "ExceptionGroup: training (2 sub-exceptions): ValueError: label 11"
    assert program.message["error"] == error
    assert program.message["from"] == "program"
    program.run(
        "import asyncio\nasync def fetch():\n    raise ValueError('checksum')\nasync def main():\n"
        "    async with asyncio.TaskGroup() as group:\n        group.create_task(fetch())\n"
        "asyncio.run(main())"
    )
    assert program.message["at"] == "train.py:3"


def test_torchrun_gets_the_error_in_its_own_file(program: Program) -> None:
    program.run(_CAUSES["torchrun's child"][0])
    told = json.loads(Path(f"{program.message_file}.e").read_text())["message"]
    assert told["message"] == "ValueError: label 11 is out of range"
    assert "train.py" in told["extraInfo"]["py_callstack"]
    assert int(told["extraInfo"]["timestamp"]) > 0


@pytest.mark.parametrize("code", ["1", "3"])
def test_an_exit_code_alone_is_no_exception(program: Program, code: str) -> None:
    program.run(f"import sys\ntry:\n    {{}}['x']\nexcept KeyError:\n    pass\nsys.exit({code})")
    assert program.message["error"] == f"the program exited with code {code}"
    assert "from" not in program.message


def test_a_helpers_failure_is_no_error_of_its_program(program: Program) -> None:
    helper = (
        "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import nothing'])\n"
    )
    assert program.run(helper).returncode == 0
    assert "error" not in program.message
    program.run(helper + "os.kill(os.getpid(), 9)")
    assert "was terminated by SIGKILL" in program.message["error"]
    program.run(
        f"{helper}import traceback\n"
        "try: {}[1]\nexcept KeyError: traceback.print_exc()\nsys.exit(4)"
    )
    assert program.message["error"] == "the program exited with code 4"


_CHILD = f"""
import sys
def work(number=0): {_RAISE}
if __name__ == '__main__':
    {{start}}
"""


@pytest.mark.parametrize(
    ("start", "named"),
    [
        ("import multiprocessing as m; p = m.Process(target=work); p.start(); p.join()", "11 is"),
        (
            "from torch.spawn import spawn\n    try: spawn(work, 1)\n    except Exception: 0",
            "11 is",
        ),
        ("import subprocess; subprocess.run([sys.executable, '-c', '1 / 0'])", "by zero"),
    ],
    ids=["process", "spawn", "subprocess"],
)
def test_a_failed_child_of_a_success_is_a_warning(program: Program, start: str, named: str) -> None:
    done = program.run(_CHILD.format(start=start))
    assert done.returncode == 0, done.stderr
    assert program.message["warning"].startswith("the program succeeded, but a process that it")
    assert named in program.message["warning"]


def test_what_was_caught_in_a_child_is_no_warning(program: Program) -> None:
    start = "import multiprocessing as m; p = m.Process(target=print); p.start(); p.join()"
    program.run(_CHILD.format(start=f"{start}\n    try: work()\n    except ValueError: pass"))
    assert "warning" not in program.message


_GLOO = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]"
_RAISED = {
    # By torch, gloo or NCCL, of a peer.
    "DistBackendError('NCCL error, ncclSystemError')": "peer",
    "DistNetworkError('failed to recv, got 0 bytes')": "peer",
    "DistStoreError('Timed out after 31 seconds waiting for clients. 1/2')": "peer",
    f"RuntimeError({_GLOO!r})": "peer",
    "RuntimeError('Rank 0 failed to pass monitoredBarrier in 5000 ms')": "peer",
    # There, but by this rank's own doing.
    "DistNetworkError('failed to listen on port 29500, code: -98, name: EADDRINUSE')": "program",
    "DistBackendError('NCCL error, ncclInvalidUsage: Duplicate GPU detected')": "program",
    "RuntimeError('ProcessGroupGloo::allreduce: invalid tensor size')": "program",
    "RuntimeError('params[0] in this process appears not to match')": "program",
    "ValueError('Default process group has not been initialized')": "program",
}


@pytest.mark.parametrize("error", _RAISED)
def test_a_peers_error_is_known_by_type_and_place(program: Program, error: str) -> None:
    program.run(f"from torch.distributed import *\ncall({error})")
    assert program.message["from"] == _RAISED[error], program.message


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("import socket\nsocket.create_connection(('127.0.0.1', 9), timeout=3)", "program"),
        ("raise RuntimeError('the hub: connection closed by peer, timed out')", "program"),
        (f"from torch.autograd import backward\nbackward(RuntimeError({_GLOO!r}))", "peer"),
        ("from torch.autograd import backward\nbackward(RuntimeError('no grad_fn'))", "program"),
        ((f"try:\n    raise RuntimeError({_GLOO!r})\nexcept RuntimeError as error:\n"
         "    raise ValueError('training failed') from error"), "peer"),
        ((f"import os, traceback\ntry:\n    raise RuntimeError({_GLOO!r})\nexcept RuntimeError:\n"
         "    traceback.print_exc()\n    os._exit(1)"), "peer"),
        (f"import hydra\ndef work(): raise RuntimeError({_GLOO!r})\nhydra.main(work)", "peer"),
    ],
)  # fmt: skip
def test_a_programs_own_error_is_no_peers(program: Program, text: str, origin: str) -> None:
    """A tracker, a database or a hub refuses a connection as well."""
    program.run(text)
    assert program.message["from"] == origin, program.message


def test_of_spawned_ranks_the_one_that_failed_by_itself_is_named(program: Program) -> None:
    """The parent raises what another one of them reports, which lost it."""
    program.run(
        "import os, time\nfrom torch.spawn import spawn\n"
        "def work(number):\n    os.environ['RANK'] = str(number)\n"
        f"    if number == 1: raise RuntimeError({_GLOO!r})\n"
        f"    time.sleep(1)\n    {_RAISE}\n"
        "if __name__ == '__main__':\n    spawn(work, 2)"
    )
    assert program.message["error"] == "ValueError: label 11 is out of range"
    assert program.message["rank"] == 0
    program.run("import os\nos.environ['RANK'] = '5'  # as a torchrun of its own\nraise ValueError")
    assert program.message["rank"] == 0, "the pod's, whose logs there are"
