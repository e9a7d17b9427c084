"""Progress of an operation on a resource, as shown to the user."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SUMMARY_VARIABLE = "SLIPWAY_SUMMARY_FILE"
"""The environment variable for the path of the summary file, which `make preview` prints last."""

SHOWN_VARIABLE = "SLIPWAY_SHOWN_JOB"
"""The environment variable that names the job whose full PyTorchJob manifest a preview prints."""

NO_WAIT_VARIABLE = "SLIPWAY_NO_WAIT"
"""The environment variable that `make up WAIT=0` sets.

`up` then waits for a run to finish only if its job sets `wait: true` or other jobs follow it.
Each other run is watched by a pod in the cluster, its waiter.
"""


class Context(Protocol):
    """A resource's row in `pulumi up`, and whether the user has cancelled the update."""

    urn: str
    """The resource's Pulumi URN."""
    cancelled: threading.Event
    """Set once the user has pressed Ctrl-C."""

    def status(self, message: str) -> None:
        """Show `message` on the resource's row until the next status. Pulumi adds the duration."""

    def info(self, message: str) -> None:
        """Print `message` as a permanent line."""

    def warn(self, message: str) -> None:
        """Print `message` as a permanent warning."""


@dataclass
class Silence:
    """A `Context` that prints nothing."""

    urn: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def status(self, message: str) -> None: ...

    info = warn = status


def show_in_summary(text: str, log: Callable[[str], None]) -> None:
    """Log `text`, to be read before confirming an update; `make preview` repeats it at the end."""
    log(text)
    if file := os.environ.get(SUMMARY_VARIABLE):
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(f"{text}\n")
