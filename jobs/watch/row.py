"""The row of a run in `pulumi up`, which is also a line each time in the log of a CI run."""

import time
from dataclasses import dataclass, field

from core.context import Context
from jobs.watch.progress import Progress

_SHORTEST, _LONGEST = 15.0, 30.0
"""Seconds between two lines on the same epoch: a day of training is to be no book."""
_SHARE = 20


@dataclass
class Row:
    """Shows a run as it changes, and how far it is now and then.

    Args:
        context: Of the resource.
    """

    context: Context
    _begun: float = field(default_factory=time.monotonic)
    _shown: str = ""
    _milestone: tuple[str, int, bool, bool] = ("", 0, False, False)
    _shown_at: float = 0.0

    def show(self, stages: str, progress: Progress) -> None:
        """Show where the pods and the training are: a new stage, epoch or first word at once."""
        told = str(progress)
        milestone = (stages, progress.epochs_done, progress.has_stepped, told != "")
        line = f"{stages}; {told}" if told else stages
        now = time.monotonic()
        pause = min(_LONGEST, max(_SHORTEST, (now - self._begun) / _SHARE))
        if line == self._shown or (milestone == self._milestone and now - self._shown_at < pause):
            return
        self._shown, self._milestone, self._shown_at = line, milestone, now
        self.context.status(line)
