"""Find slow ranks, by the time in each step that a rank does not spend waiting for others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from jobs.records.events import event_in, numbers
from slipway.pace import OWN


@dataclass
class Paces:
    """The step times reported by a run's ranks."""

    world_size: int
    slow: dict[int, str] = field(default_factory=dict)
    """A description of each slow rank, keyed by rank, from when it was first found to be slow."""
    now: set[int] = field(default_factory=set)  # the ranks that are slow now
    _latest: dict[int, Mapping[str, float]] = field(default_factory=dict)

    def see(self, line: str) -> None:
        """Process a line from any rank's log, which may report step times."""
        if '"event": "pace"' not in line:
            return
        event = event_in(line)
        rank, parts = event.get("rank"), numbers(event.get("seconds_in"))
        if isinstance(rank, int) and parts:
            was_complete = len(self._latest) >= self.world_size
            self._latest[rank] = parts
            if len(self._latest) >= self.world_size > 1:
                for each in (rank,) if was_complete else [*self._latest]:
                    self._judge(each)

    def _judge(self, rank: int) -> None:
        parts = self._latest[rank]
        own = {
            each: sum(parts[name] for name in OWN & parts.keys())
            for each, parts in self._latest.items()
        }
        others = median(own[each] for each in own if each != rank)
        waited_for = own[rank] - others
        self.now.discard(rank)
        # A rank counts only if the others wait at least a tenth of a step for it.
        if own[rank] >= 1.5 * others and waited_for >= 0.1 * sum(parts.values()):
            self.now.add(rank)
            where = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in parts.items())
            text = f"slower than the others, which wait {waited_for:.3g} s in each step: {where}"
            self.slow.setdefault(rank, f"{own[rank] / max(others, 1e-6):.1f} times {text}")

    def __str__(self) -> str:
        """Return text that lists the ranks that are slow now, to append to a status row."""
        listed = ", ".join(f"rank {rank}" for rank in sorted(self.now))
        return f"; slower than the others: {listed}" if listed else ""
