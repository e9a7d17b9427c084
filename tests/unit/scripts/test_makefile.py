"""What a user gives to make reaches a command as it is, and no shell, nor make, reads it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from scripts.cli.__main__ import slipway

VARIABLES = (
    *("STACK", "JOB", "RANK", "RUN", "PORT", "WITH", "TO", "KEEP", "FOLLOW", "FORMAT", "BASE"),
    *("MINUTES", "QUICK", "ROWS", "JUNIT", "FILE", "SOURCE"),
)
COMMANDS: dict[str, list[str | None]] = {
    "up": [], "preview": [None], "down": ["keep"], "kubeconfig": [], "rerun": [None],
    "logs": ["rank?", "follow", None], "stacks": ["rank?", None], "shell": ["rank?", None],
    "results": ["format", None], "fetch": ["to", "run?", None],
    "ui": ["port?", None], "debug": ["port?", None], "report": ["to", None],
    "compare": ["with", None], "import": [None], "local": [None],
    "setup": [], "smoke": ["junit"],
}  # fmt: skip
"""What each target passes to its command beside the stack: options, of which some only if they have
a value, and what has no option."""
HOSTILE = [
    'x";touch done;"',
    "x';touch done;'",
    "$(touch done) $(shell touch done) ${shell touch done} $$(touch done) `touch done`",
    "x\ntouch done\n\ttouch done\n",
    "--help # % *",
    "\\",
    "",
]
_SPEAKER = """#!{python} -IS
import json, os, sys
python = {{k: v for k, v in os.environ.items() if k.startswith(("PYTHON", "SLIPWAY_"))}}
with open("calls", "a") as file:
    file.write(json.dumps([sys.argv[1:], python, os.environ.get("SOURCE")]) + "\\n")
"""


def words(name: str, value: str) -> list[str]:
    """Return what a target passes to its command where each variable of make's has that value."""
    found = [f"--stack={value}"]
    for option in COMMANDS[name]:
        if option is None:
            found += ["--", value]
        elif value or not option.endswith("?"):
            found.append(f"--{option.rstrip('?')}={value}")
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the Makefile, and Pythons that write down how they are called."""
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    for name in (".venv/bin/python", ".venv-test/bin/python", "bin/py thon3"):
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text(_SPEAKER.format(python=sys.executable))
        program.chmod(0o755)
    return tmp_path


def make(
    checkout: Path, *arguments: str, **variables: str
) -> list[tuple[list[str], dict[str, str], str]]:
    """Return the command line of each Python that was started, its variables, and SOURCE."""
    (checkout / "calls").unlink(missing_ok=True)
    environment = {"PATH": os.environ["PATH"], **variables}
    python = f"PYTHON={checkout}/bin/py thon3"
    command = ["make", "--silent", python, *arguments]
    subprocess.run(command, cwd=checkout, env=environment, check=True, timeout=60)
    assert not (checkout / "done").exists()
    return [tuple(json.loads(line)) for line in (checkout / "calls").read_text().splitlines()]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_arrives_as_it_is(checkout: Path, value: str) -> None:
    given = dict.fromkeys(VARIABLES, value)
    of_stack = {name: text for name, text in given.items() if name not in {"JOB", "TO"}}
    targets = [*COMMANDS.keys() - {"up", "down"}, "bench-commands"]
    expected = [["-m", "tests.bench.commands", *[value] * (value != "")]]
    expected += [["-m", "scripts.cli", name, *words(name, value)] for name in COMMANDS]
    for called in (
        make(checkout, *targets, *(f"{name}={text}" for name, text in given.items()))
        + make(checkout, "up", "down", *(f"{name}={text}" for name, text in of_stack.items())),
        make(checkout, *targets, **given) + make(checkout, "up", "down", **of_stack),
    ):
        lines = [arguments for arguments, _, _ in called]
        assert [each for each in expected if each not in lines] == []
        assert {source for _, _, source in called} == {value}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("down Stack=mine", "There is no variable Stack, so nothing was run; use one of: STACK "),
        ("down mine", "There is no command `make mine`, so nothing was run"),
        ("up JOB=mine", "JOB=mine is not allowed, and nothing was run. To train one job again"),
        ("down TO=backup", "TO=backup is not allowed, .* use `make down KEEP=directory`"),
    ],
)
def test_a_mistake_removes_and_trains_nothing(
    checkout: Path, capfd: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    make(checkout, "up", "XDG_STATE_HOME=/elsewhere")  # of a program, not a mistake
    with pytest.raises(subprocess.CalledProcessError):
        make(checkout, *words.split())
    assert re.search(message, capfd.readouterr().err)
    assert not (checkout / "calls").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_value_with_a_dash_is_no_option(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Mapping[str, object]] = []
    monkeypatch.setattr("scripts.cli.calls.call", lambda *given: called.append(given[2]))
    allowed = {"port": "5000", "rank": "0", "follow": "1", "format": "text", "run": "succeeded"}
    given = [word for word in words(name, "--help") if word.partition("=")[0][2:] not in allowed]
    with pytest.raises(SystemExit, match="None"):
        slipway.main([name, *given])
    assert called[0]["stack"] == "--help"
    assert {called[0].get(each, "--help") for each in ("job", "file", "to", "keep", "other")} == {
        "--help"
    }


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "SLIPWAY_PROJECT"])
def test_the_shells_own_python_and_folder_reach_none_of_ours(checkout: Path, name: str) -> None:
    for called in make(checkout, "up", "preview", "down", "env", "smoke", **{name: "/mine"}):
        assert called[1] == {"PYTHONUTF8": "1"}, called
