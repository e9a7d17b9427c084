"""What ended a program is known from the process itself: real Pythons, under the launcher."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.images.trainer.container import SITE, Container, ended

_RAISE = "raise ValueError('label 11 is out of range')"
# As torch has them: https://github.com/pytorch/pytorch/blob/v2.6.0/torch/multiprocessing/spawn.py
# and torch/_utils.py.
_TORCH = {
    "torch/__init__.py": "",
    "torch/distributed/__init__.py": """
class DistError(RuntimeError): pass
class DistBackendError(DistError): pass
def call(error): raise error
""",
    "torch/autograd.py": "def backward(error): raise error\n",
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
}
"""Stand-ins of what wraps a user's error; with torch itself it is tests/runs/test_causes.py."""


class Program(Container):
    """A script under the launcher, with the image's sitecustomize and these stand-ins."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SITE, directory / "site-packages")
        for name, text in _TORCH.items():
            path = directory / "site-packages" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, text: str, code: int = 1) -> dict[str, Any]:
        """Run it to its end, with this exit code, and return its message."""
        self.log.write_text("")
        ended(self.launch(text), code)
        return self.message


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


_CAUSES = {
    "its own hook": (f"import os, sys\nsys.excepthook = lambda *_: os._exit(1)\n{_RAISE}", 3),
    "in a library": (
        ("import json\nclass Label:\n    def __init__(self):\n        pass\ndef fail(_):\n"
        f"    {_RAISE}\njson.dumps(Label(), default=fail)"), 6),
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
    """A rank's error and the user's line are named, whatever wraps, follows or hides them."""
    text, line = _CAUSES[cause]
    message = program.run(text, 134 if cause == "aborted at its end" else 1)
    assert message["error"].splitlines()[0] == "ValueError: label 11 is out of range", message
    assert message["at"] == f"train.py:{line}", message
    assert message["from"] == "program"


def test_a_containers_only_process_leaves_its_message(program: Program) -> None:
    (program.directory / "train.py").write_text(_RAISE)
    ended(program.start("train.py"), 1)
    assert program.message["error"] == "ValueError: label 11 is out of range"
    assert program.message["at"] == "train.py:1"


def test_a_text_that_ends_a_program_is_its_error(program: Program) -> None:
    done = ended(program.launch("import sys\n\nsys.exit('no data in /data')"), 1)
    assert done.err == "no data in /data\n"
    message = program.message
    assert (message["error"], message["at"]) == ("no data in /data", "train.py:3")
    message = program.run(
        "import os, sys\nos.environ['TORCHELASTIC_ERROR_FILE'] = 'nowhere/e'\ntry:\n    int('x')\n"
        "except ValueError:\n    sys.exit('no number')"
    )
    assert (message["error"], message["at"]) == ("no number", "train.py:6")


def test_the_line_the_refusal_and_what_led_to_it_are_recorded(program: Program) -> None:
    """Of a syntax error, of `argparse` and of an exception with a cause."""
    (program.directory / "model.py").write_text("layers = 3\nwidth = = 4\n")
    assert program.run("import model")["at"] == "model.py:2"
    message = program.run("import argparse\nargparse.ArgumentParser().parse_args()", 2)
    assert message["error"] == "train.py: error: unrecognized arguments: --x"
    message = program.run(
        "try:\n    {}['label']\nexcept KeyError as error:\n    raise ValueError('bad') from error\n"
    )
    assert (message["error"], message["at"]) == ("ValueError: bad", "train.py:4")
    assert message["causes"] == ["KeyError: 'label'"]


def test_of_a_group_the_exception_that_comes_from_the_program_is_named(program: Program) -> None:
    message = program.run(
        "from torch.distributed import DistBackendError\n"
        "raise ExceptionGroup('training', [DistBackendError('remote'), ValueError('label 11')])\n"
    )
    error = "ExceptionGroup: training (2 sub-exceptions): ValueError: label 11"
    assert (message["error"], message["from"]) == (error, "program")


def test_torchrun_gets_the_error_in_its_own_file(program: Program) -> None:
    program.run(_CAUSES["torchrun's child"][0])
    told = json.loads(Path(f"{program.log}.e").read_text())["message"]
    assert told["message"] == "ValueError: label 11 is out of range"
    assert "train.py" in told["extraInfo"]["py_callstack"]
    assert int(told["extraInfo"]["timestamp"]) > 0


def test_neither_an_exit_code_nor_a_helpers_failure_is_an_error(program: Program) -> None:
    caught = "import os, sys, traceback\ntry: {}['x']\nexcept KeyError: "
    failed = program.run(f"{caught}pass\nsys.exit(3)", 3)
    assert (failed["error"], "from" in failed) == ("the program exited with code 3", False)
    helper = "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import no'])\n"
    assert "error" not in program.run(helper, 0)
    killed = program.run(f"{helper}os.kill(os.getpid(), 9)", 137)
    assert "was terminated by SIGKILL" in killed["error"]
    failed = program.run(f"{helper}{caught}traceback.print_exc()\nsys.exit(4)", 4)
    assert failed["error"] == "the program exited with code 4"


_CHILD = f"""
import sys
def work(number=0): {_RAISE}
if __name__ == '__main__':
    {{start}}
"""


def test_a_failed_child_of_a_success_is_a_warning_unless_it_was_caught(program: Program) -> None:
    for start, named in (
        ("import torch.spawn as s\n    try: s.spawn(work, 1)\n    except Exception: 0", "11 is"),
        ("import subprocess; subprocess.run([sys.executable, '-c', '1 / 0'])", "by zero"),
    ):
        warning = program.run(_CHILD.format(start=start), 0)["warning"]
        assert warning.startswith("the program succeeded, but a process that it")
        assert named in warning
    start = "import multiprocessing as m; p = m.Process(target=print); p.start(); p.join()"
    start += "\n    try: work()\n    except ValueError: pass"
    assert "warning" not in program.run(_CHILD.format(start=start), 0)


_GLOO = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]"
_RAISED = {
    # By torch, gloo or NCCL, of a peer.
    "DistBackendError('NCCL error, ncclSystemError')": "peer",
    f"RuntimeError({_GLOO!r})": "peer",
    "RuntimeError('Rank 0 failed to pass monitoredBarrier in 5000 ms')": "peer",
    # There, but by this rank's own doing.
    "DistBackendError('NCCL error, ncclInvalidUsage: Duplicate GPU detected')": "program",
    "RuntimeError('params[0] in this process appears not to match')": "program",
    "ValueError('Default process group has not been initialized')": "program",
}


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        *((f"from torch.distributed import *\ncall({each})", _RAISED[each]) for each in _RAISED),
        ("raise RuntimeError('the hub: connection closed by peer, timed out')", "program"),
        (f"from torch.autograd import backward\nbackward(RuntimeError({_GLOO!r}))", "peer"),
        ((f"try:\n    raise RuntimeError({_GLOO!r})\nexcept RuntimeError as error:\n"
         "    raise ValueError('training failed') from error"), "peer"),
        ((f"import os, traceback\ntry:\n    raise RuntimeError({_GLOO!r})\nexcept RuntimeError:\n"
         "    traceback.print_exc()\n    os._exit(1)"), "peer"),
    ],
)  # fmt: skip
def test_a_peers_error_is_known_by_type_and_place(program: Program, text: str, origin: str) -> None:
    assert program.run(text)["from"] == origin, program.message


def test_of_spawned_ranks_the_one_that_failed_by_itself_is_named(program: Program) -> None:
    """The parent raises what another one of them reports, which lost it."""
    message = program.run(
        "import os, time\nfrom torch.spawn import spawn\n"
        "def work(number):\n    os.environ['RANK'] = str(number)\n"
        f"    if number == 1: raise RuntimeError({_GLOO!r})\n"
        f"    time.sleep(1)\n    {_RAISE}\n"
        "if __name__ == '__main__':\n    spawn(work, 2)"
    )
    assert (message["error"], message["rank"]) == ("ValueError: label 11 is out of range", 0)
    own_torchrun = "import os\nos.environ['RANK'] = '5'\nraise ValueError"
    assert program.run(own_torchrun)["rank"] == 0, "the pod's, whose logs there are"
