"""A pod's container, with this machine's Python, which has no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from core.paths import CHECKOUT

TRAINER = CHECKOUT / "images/trainer"
SITE = TRAINER / "python"
"""Where the image's sitecustomize is."""


class Ended(NamedTuple):
    """What a process printed."""

    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Container:
    """A directory with the file for the termination message, and an environment."""

    def __init__(self, directory: Path, *paths: Path, **variables: str) -> None:
        self.directory = directory
        self.log = directory / "termination-log"
        self.log.touch()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(map(str, (*paths, TRAINER))),
            "TERMINATION_LOG": str(self.log),
            **variables,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Python in the directory."""
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def launch(self, text: str) -> subprocess.Popen[str]:
        """Start the launcher with a script `train.py` that has this text."""
        script = self.directory / "train.py"
        script.write_text(text)
        return self.start("-m", "slipway_trainer.launch", "--", str(script), "--x")

    @property
    def message(self) -> dict[str, Any]:
        """The termination message."""
        message: dict[str, Any] = json.loads(self.log.read_text() or "{}")
        return message


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def ended(process: subprocess.Popen[str], code: int = 0, text: str | None = None) -> Ended:
    """Write a text to a process, and wait until it ends with this exit code."""
    out, err = process.communicate(text, timeout=30)
    assert process.returncode == code, err
    return Ended(out, err)
