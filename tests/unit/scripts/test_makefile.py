"""What a user gives to make reaches a command as it is, and no shell, nor make, reads it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from scripts.cli import __main__ as cli

VARIABLES = (
    "STACK",
    "JOB",
    "RANK",
    "RUN",
    "PORT",
    "WITH",
    "TO",
    "KEEP",
    "FOLLOW",
    "FORMAT",
    "BASE",
    "JUNIT",
    "FILE",
)
COMMANDS = {
    "up": 1, "preview": 1, "down": 2, "kubeconfig": 1, "rerun": 2, "logs": 4, "results": 3,
    "fetch": 4, "ui": 3, "report": 3, "compare": 3,
    "import": 2, "local": 2,
}  # fmt: skip
"""How many values each target passes to its command."""
HOSTILE = [
    'x";touch done;"',
    "x';touch done;'",
    "$(touch done) $(shell touch done) ${shell touch done} $$(touch done) `touch done`",
    "x\ntouch done\n\ttouch done\n",
    "a b  c # % *",
    "--help",
    "$",
    "\\",
    "",
]
_SPEAKER = """#!{python} -IS
import json, os, sys
python = {{name: os.environ[name] for name in os.environ if name.startswith("PYTHON")}}
with open("calls", "a") as file:
    file.write(json.dumps([sys.argv[1:], python, os.environ.get("SOURCE")]) + "\\n")
"""


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
    given, targets = (
        dict.fromkeys(VARIABLES, value),
        ["setup", *COMMANDS, "smoke", "bench-commands"],
    )
    expected = [["-m", "scripts.cli", name, "--", *[value] * n] for name, n in COMMANDS.items()]
    expected += [
        ["-m", "scripts.setup.bootstrap", f"--stack={value}"],
        ["-m", "scripts.setup.bootstrap", f"--stack={value}", "--brief", "--preview"],
        [
            "-m",
            "pytest",
            "tests/smoke",
            f"--stack={value}",
            *[f"--junit-xml={value}"] * (value != ""),
        ],
        ["-m", "tests.bench.commands", *[value] * (value != "")],
    ]
    for called in (
        make(checkout, *targets, *(f"{name}={text}" for name, text in given.items())),
        make(checkout, *targets, **given),
    ):
        lines = [arguments for arguments, _, _ in called]
        assert [each for each in expected if each not in lines] == []


def test_a_value_that_begins_with_a_dash_is_no_option() -> None:
    for name, (_, *arguments) in cli._COMMANDS.items():
        values = {"port": "5000", "rank": "0", "follow": "1", "format": "text", "run": ""}
        words = [values.get(each, "--help") for each in ("stack", *arguments)]
        parsed = cli._parser().parse_args([name, "--", *words])
        assert parsed.stack == "--help"


def test_the_source_of_the_tools_arrives_both_ways(checkout: Path) -> None:
    assert make(checkout, "setup", "SOURCE=build")[0][2] == "build"
    assert make(checkout, "setup", SOURCE="build")[0][2] == "build"
    assert make(checkout, "setup", "SOURCE=$(shell touch done)")[0][2] == "$(shell touch done)"
    assert not make(checkout, "setup")[0][2]


@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH"])
def test_the_shells_own_python_reaches_none_of_ours(checkout: Path, variable: str) -> None:
    for called in make(checkout, "up", "preview", "down", "env", "smoke", **{variable: "/mine"}):
        assert called[1] == {"PYTHONUTF8": "1"}, called
