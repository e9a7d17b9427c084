"""What a rank tells the outside while it works: JSON lines on its standard output."""

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Events:
    """The event stream of one rank."""

    rank: int

    def emit(self, event: str, **values: object) -> None:
        """Write one event with the rank and the time (ISO 8601, UTC) as one JSON line."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"event": event, "rank": self.rank, "time": time, **values}
        # In one piece: the ranks of one pod share its standard output, which may be unbuffered.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
