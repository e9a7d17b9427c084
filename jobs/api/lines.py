"""Parse lines in container logs, and timestamps in these lines and from Kubernetes."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LONGEST = 256 * 1024
"""Maximum length of a line, in bytes. Longer lines are cut, so that they don't fill up memory."""

# https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/cri-client/pkg/logs/logs.go
_STAMP = re.compile(r"[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)")

NEVER = datetime.min.replace(tzinfo=UTC)
"""A timestamp before any event."""


class Line(NamedTuple):
    """A line in a log."""

    stamp: str  # RFC 3339 in UTC with nine decimals, so that text order is time order
    text: str

    @classmethod
    def parse(cls, raw: str) -> "Line | None":
        """Parse a log line; return None if it has no timestamp, like the kubelet's own messages."""
        stamp, _, text = raw.partition(" ")
        if (matched := _STAMP.fullmatch(stamp)) is None:
            return None
        try:
            # datetime stores only six decimals of a second, so all nine are kept as text.
            moment = datetime.fromisoformat(stamp[:19] + matched[1]).astimezone(UTC)
        except (OverflowError, ValueError):  # not a timestamp: something else wrote the file
            return None
        return cls(f"{moment.isoformat()[:19]}{stamp[19:29]}Z", text)

    def __str__(self) -> str:
        """Return the line in the format that `parse` reads."""
        return f"{self.stamp} {self.text}"


@dataclass
class Cursor:
    """A position in a container's log, which has the same lines in the same order on every read.

    Lines from stdout and stderr may be out of order, so timestamps don't show which lines are new.
    """

    stamp: str | None = None  # of the last line
    repeats: int = 0  # number of lines with that timestamp

    @property
    def since(self) -> str | None:
        """The timestamp, in whole seconds, from which to request the log; None for the whole log.

        The response then repeats at least the last line that was read.
        """
        if self.stamp is None:
            return None
        # The API server rounds down; an extra second covers lines that are out of order.
        since = datetime.fromisoformat(f"{self.stamp[:19]}+00:00") - timedelta(seconds=1)
        return f"{since:%Y-%m-%dT%H:%M:%SZ}"

    def see(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.repeats = self.repeats + 1 if line.stamp == self.stamp else 1
            self.stamp = line.stamp

    def fresh(self, batches: Iterable[list[Line]]) -> Iterator[list[Line]]:
        """Yield the lines after the cursor in a log read from `since`, and advance the cursor."""
        left, begun = self.repeats, False
        for batch in batches:
            # The kubelet rotates long logs, so a log may begin after the cursor.
            if left > 0 and not begun and batch and batch[0].stamp > str(self.stamp):
                left = 0
            begun = begun or bool(batch)
            repeated = 0
            while left > 0 and repeated < len(batch):
                left -= batch[repeated].stamp == self.stamp
                repeated += 1
            new = batch[repeated:]
            yield new
            # A caller that stops before the next batch gets these lines again.
            self.see(new)


def moment(text: str) -> datetime:
    """Parse a timestamp; return NEVER if it is missing or malformed."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return NEVER


def seconds_between(first: object, last: object) -> float | None:
    """Return the seconds between two timestamps; None if one is missing or has no time zone."""
    begun, ended = moment(str(first)), moment(str(last))
    if NEVER in (begun, ended) or begun.tzinfo is None or ended.tzinfo is None:
        return None
    return (ended - begun).total_seconds()
