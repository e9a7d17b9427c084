"""Lines of a container's log, and times as nodes, the API server and ranks report them. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LONGEST = 256 * 1024
"""Bytes of a line that are kept: what never ends its line must not fill the memory."""

# https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/cri-client/pkg/logs/logs.go
_STAMP = re.compile(r"[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)")

NEVER = datetime.min.replace(tzinfo=UTC)
"""Before anything that happened."""


class Line(NamedTuple):
    """A line of a log."""

    stamp: str  # RFC 3339 in UTC with nine digits: as text in order of time
    text: str

    @classmethod
    def parse(cls, raw: str) -> "Line | None":
        """Return the line that the kubelet sends, None for its own messages, which have no time."""
        stamp, _, text = raw.partition(" ")
        if (matched := _STAMP.fullmatch(stamp)) is None:
            return None
        try:
            # Python's own times have six digits, so those of the second are kept as text.
            moment = datetime.fromisoformat(stamp[:19] + matched[1]).astimezone(UTC)
        except (OverflowError, ValueError):  # no time, in a file that something else wrote
            return None
        return cls(f"{moment.isoformat()[:19]}{stamp[19:29]}Z", text)

    def __str__(self) -> str:
        """As `parse` reads it."""
        return f"{self.stamp} {self.text}"


@dataclass
class Cursor:
    """How far a container's log has been read; each time it has the same lines in the same order.

    Those of standard output and error may be out of order, so times alone don't show what is new.
    """

    stamp: str | None = None  # of the last line
    repeats: int = 0  # how many lines had it

    @property
    def since(self) -> str | None:
        """From when on to request the log, in full seconds: it repeats the last line."""
        if self.stamp is None:
            return None
        # The API server rounds down; with a second more nothing that was out of order is missed.
        since = datetime.fromisoformat(f"{self.stamp[:19]}+00:00") - timedelta(seconds=1)
        return f"{since:%Y-%m-%dT%H:%M:%SZ}"

    def see(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.repeats = self.repeats + 1 if line.stamp == self.stamp else 1
            self.stamp = line.stamp

    def fresh(self, batches: Iterable[list[Line]]) -> Iterator[list[Line]]:
        """Yield what comes after the cursor in a log read from `since` on, and move it along."""
        left, begun = self.repeats, False
        for batch in batches:
            # Kubelets keep a part of a long log, which then begins after what was read.
            if left > 0 and not begun and batch and batch[0].stamp > str(self.stamp):
                left = 0
            begun = begun or bool(batch)
            known = 0
            while left > 0 and known < len(batch):
                left -= batch[known].stamp == self.stamp
                known += 1
            new = batch[known:]
            yield new
            # Only what was taken counts: a caller that breaks off here gets these lines again.
            self.see(new)


def moment(text: str) -> datetime:
    """Return a time that was reported; the beginning of time when it is missing."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return NEVER


def seconds_between(first: object, last: object) -> float | None:
    """Return the seconds between two times that were reported; None where one is none."""
    begun, ended = moment(str(first)), moment(str(last))
    if NEVER in (begun, ended) or begun.tzinfo is None or ended.tzinfo is None:
        return None
    return (ended - begun).total_seconds()
