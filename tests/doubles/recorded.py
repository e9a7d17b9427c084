"""What the recorded programs share: a directory that they keep state in, and their calls.

A recorded program stands for a command-line tool in tests. It refuses what the tool would refuse,
keeps what it was told, and writes every call down. Only the standard library: it starts fast.
"""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120, PTH123, S302
# pathlib and json take longer to import than all the rest, and a cluster takes 60 calls to make.
from __future__ import annotations

import fcntl
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any, NoReturn, Self

PLACE = "SLIPWAY_DOUBLES"
"""The variable that names the directory."""
_BETWEEN = "\x1f"


def place(*names: str) -> str:
    """Return a path in the directory of the test that runs."""
    return os.path.join(os.environ[PLACE], *names)


def is_set(name: str) -> bool:
    """Whether the test has asked for something by a file of that name."""
    return os.path.exists(place(name))


def content(name: str) -> str:
    """Return what the test has put into a file."""
    with open(place(name)) as file:
        return file.read()


def refuse(message: str, code: int = 1) -> NoReturn:
    """End with an error."""
    sys.stderr.write(f"{message}\n")
    sys.exit(code)


def note(program: str, arguments: Sequence[str]) -> None:
    """Write a call down."""
    with open(place("calls"), "a") as file:
        file.write(_BETWEEN.join([program, *arguments]).replace("\n", " ") + "\n")


class State(dict[str, "Any"]):
    """A program's state, which is kept as it is afterwards; one program at a time."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._file = place(f"{name}.state")

    def __enter__(self) -> Self:
        self._lock = open(f"{self._file}.lock", "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if os.path.exists(self._file):
            with open(self._file, "rb") as file:
                self.update(marshal.load(file))
        return self

    def __exit__(self, *_: object) -> None:
        with open(self._file, "wb") as file:
            marshal.dump(dict(self), file)
        self._lock.close()


class Arguments:
    """A command's flags and words, checked against the flags that it has.

    Args:
        given: The command line, without the command itself.
        flags: By name: whether it takes a value.
        inner: Whether all that follows the first word is not the command's own.
    """

    def __init__(
        self, given: Sequence[str], flags: Mapping[str, bool], *, inner: bool = False
    ) -> None:
        self.values: dict[str, list[str]] = {}
        self.words: list[str] = []
        rest = list(given)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self.words += rest
                break
            if not word.startswith("-") or word == "-":
                self.words.append(word)
                if inner:
                    self.words += rest
                    break
                continue
            name, equals, value = word.partition("=")
            if name not in flags:
                refuse(f"unknown flag: {name}", 125)
            if flags[name] and not equals:
                if not rest:
                    refuse(f"flag needs an argument: {name}", 125)
                value = rest.pop(0)
            self.values.setdefault(name, []).append(value)

    def all(self, *names: str) -> list[str]:
        """Return what was given by flags that mean the same."""
        return [value for name in names for value in self.values.get(name, [])]

    def last(self, *names: str) -> str | None:
        """Return what was given last."""
        found = self.all(*names)
        return found[-1] if found else None


def calls(directory: Path, program: str) -> list[list[str]]:
    """Return the calls of a program in a test's directory, for the test."""
    file = directory / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    return [words[1:] for words in (line.split(_BETWEEN) for line in lines) if words[0] == program]


def kept(directory: Path, program: str) -> dict[str, Any]:
    """Return a program's state in a test's directory, for the test."""
    found: dict[str, Any] = marshal.loads((directory / f"{program}.state").read_bytes())
    return found


def keep(directory: Path, program: str, state: dict[str, Any]) -> None:
    """Set a program's state in a test's directory, for the test."""
    (directory / f"{program}.state").write_bytes(marshal.dumps(state))


def install(directory: Path, program: str, module: str) -> Path:
    """Make a recorded program startable, as `directory/bin/<program>`, for the test."""
    path = directory / "bin" / program
    path.parent.mkdir(parents=True, exist_ok=True)
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    path.write_text(
        f"#!{sys.executable} -IS\n"
        f"import sys; sys.path.insert(0, {root!r})\n"
        f"from tests.doubles.{module} import main; main(sys.argv[1:])\n"
    )
    path.chmod(0o755)
    return path
