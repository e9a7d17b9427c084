"""Reports of a running operation on a resource to the user."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SUMMARY_VARIABLE = "SLIPWAY_SUMMARY_FILE"
"""The environment variable with the path of the file that `make preview` ends with."""

SHOWN_VARIABLE = "SLIPWAY_SHOWN_JOB"
"""The one with the job whose complete PyTorchJob a preview prints."""

NO_WAIT_VARIABLE = "SLIPWAY_NO_WAIT"
"""The one by which `make up WAIT=0` leaves each run that no job follows to a waiter."""


class Context(Protocol):
    """The row of one resource in `pulumi up`, and whether the user has cancelled it."""

    urn: str
    """The resource, as the engine names it."""
    cancelled: threading.Event
    """Set once the user pressed Ctrl-C."""

    def status(self, message: str) -> None:
        """Show `message`, with no clock in it, on the resource's own row until the next one."""

    def info(self, message: str) -> None:
        """Print `message` as a line that stays."""

    def warn(self, message: str) -> None:
        """Print `message` as a warning that stays."""


@dataclass
class Silence:
    """A `Context` that prints nothing."""

    urn: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def status(self, message: str) -> None: ...

    info = warn = status


def show_in_summary(text: str, log: Callable[[str], None]) -> None:
    """Log what to read before confirming; Pulumi buries it, so `make preview` ends with it, too."""
    log(text)
    if file := os.environ.get(SUMMARY_VARIABLE):
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(f"{text}\n")
