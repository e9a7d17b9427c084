"""What a stack's jobs need and cost, and in which order they run. Pure."""

import operator
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from clusters.nodes import Capacity
from jobs.model.job import TrainingJob
from jobs.model.names import GPU
from jobs.model.program import Share, roles, share


def prerequisites(job: TrainingJob) -> tuple[str, ...]:
    """Return the jobs that must have succeeded before `job` starts."""
    return tuple(dict.fromkeys((*job.depends_on, *(each.job for each in job.inputs.values()))))


def not_run(
    jobs: Sequence[TrainingJob], states: Mapping[str, str | None], passed: Mapping[str, bool]
) -> dict[str, str]:
    """Return why jobs did not run that were to follow others.

    `states` has how each ended, `passed` whether it passed its gate: this time, or, as the engine
    has it of those that it skips, last time. None is one that never ran.
    """
    found = dict[str, str]()
    ends = dict(states)
    words = {None: "did not run", "Succeeded": "missed what its gate asks for"}
    for job in Schedule(jobs, None).ordered:
        blamed = [
            f"{other}, which {words.get(ends[other], f'ended {ends[other]}')}"
            for other in prerequisites(job)
            if ends[other] is None or not passed[other]
        ]
        if blamed:
            found[job.name] = f"it needs {' and '.join(blamed)}"
            ends[job.name] = None
    return found


def shares(job: TrainingJob) -> list[Share]:
    """Return what each replica of `job` requests."""
    return [share(job, role) for role, count in roles(job).items() for _ in range(count)]


def fits(requests: Iterable[Share], capacity: Capacity) -> bool:
    """Return whether pods with these shares find room at the same time."""
    return _fit([*map(_need, requests)], capacity)


def _need(share: Share) -> list[Decimal]:
    return [Decimal(share.gpus), share.cores, Decimal(share.bytes)]


def _fit(needs: list[list[Decimal]], capacity: Capacity) -> bool:
    """Return whether pods with these needs find room at the same time."""
    node = [Decimal(capacity.gpus), capacity.cpu, Decimal(capacity.memory)]
    totals = map(sum, zip(*needs, strict=True))  # which takes less time than placing them
    if any(total > room * capacity.nodes for total, room in zip(totals, node, strict=False)):
        return False
    # The largest are placed first, each on the first node that has room: with nodes of one kind
    # that finds a place in all but contrived cases.
    rooms = [node] * capacity.nodes
    for needed in sorted(needs, reverse=True):
        places = (i for i, room in enumerate(rooms) if all(map(operator.le, needed, room)))
        if (place := next(places, None)) is None:
            return False
        rooms[place] = [*map(operator.sub, rooms[place], needed)]
    return True


def described(requests: Sequence[Share]) -> str:
    """Return what pods with these shares need, such as "2 pods with 4 cores, 2 GiB in total"."""
    pods, total = ("1 pod", "") if len(requests) == 1 else (f"{len(requests)} pods", " in total")
    cores = sum((each.cores for each in requests), Decimal(0))
    memory = sum(each.bytes for each in requests)
    gpus = sum(each.gpus for each in requests)
    parts = ["1 core" if cores == 1 else f"{float(cores):g} cores"]
    parts.append(f"{memory / 2**30:.4g} GiB" if memory >= 2**30 else f"{memory / 2**20:.4g} MiB")
    parts += [f"{gpus} x {GPU}"] if gpus else []
    return f"{pods} with {', '.join(parts)}{total}"


@dataclass(frozen=True)
class Schedule:
    """The order in which a stack's jobs run."""

    jobs: Sequence[TrainingJob]
    capacity: Capacity | None  # what the cluster has for them; None where that is not known

    @cached_property
    def ordered(self) -> list[TrainingJob]:
        """Each job after those that it needs; those come last whose own images may take minutes.

        Raises:
            StopIteration: no such order exists.
        """
        rest = sorted(self.jobs, key=lambda job: bool(job.build or job.requirements))
        found = list[TrainingJob]()
        while rest:
            later = {job.name for job in rest}
            found.append(next(job for job in rest if later.isdisjoint(prerequisites(job))))
            rest.remove(found[-1])
        return found

    @cached_property
    def waits(self) -> dict[str, tuple[str, ...]]:
        """For each job those that must have ended before it fits.

        Whatever runs beside a job then, the cluster has room for all of it. The first jobs are
        waited for, also such as need no training; none where that room is not known.
        """
        found: dict[str, tuple[str, ...]] = {}
        ended: dict[str, set[str]] = {}
        """By job, itself and all that have surely ended when it starts."""
        needs = {job.name: [*map(_need, shares(job))] for job in self.jobs}
        for job in self.ordered:
            over = set().union(*(ended[name] for name in prerequisites(job)))
            beside = [name for name in found if name not in over]
            count = self._waited(beside, job.name, needs)
            implied, waits = set[str](), list[str]()
            for name in reversed(beside[:count]):
                if name not in implied:
                    waits.insert(0, name)
                    implied |= ended[name]
            found[job.name] = tuple(waits)
            ended[job.name] = over | implied | {job.name}
        return found

    def _waited(self, beside: list[str], job: str, needs: Mapping[str, list[list[Decimal]]]) -> int:
        """Return how many of the first jobs must have ended for `job` to fit beside the others."""
        room = self.capacity
        if room is None:
            return 0

        def has_room(ended: int) -> bool:
            left = (*beside[ended:], job)
            return _fit([need for name in left for need in needs[name]], room)

        return bisect_left(range(len(beside)), True, key=has_room)

    def text(self, idle: Collection[str] = ()) -> str:
        """Describe what the jobs need, what the cluster has, and their turns, as far as known.

        `idle` are jobs that are known not to train now: their results are there.
        """
        parts = []
        if len(self.jobs) > 1:
            requests = [share for job in self.jobs for share in shares(job)]
            parts.append(f"the {len(self.jobs)} jobs of the stack need {described(requests)}")
        if self.capacity is not None:
            parts.append(f"the cluster has {self.capacity}")
        turn: dict[str, int] = {}
        for job in self.ordered:
            if job.name not in idle:
                before = (*self.waits[job.name], *prerequisites(job))
                turn[job.name] = 1 + max((turn.get(name, 0) for name in before), default=0)
        if any(self.waits[name] for name in turn) and len(turns := sorted({*turn.values()})) > 1:
            groups = ([job for job in turn if turn[job] == each] for each in turns)
            listed = "; then ".join(", ".join(group) for group in groups)  # "a, b; then c"
            parts.append(f"those that train run in turns: {listed}")
        return "; ".join(parts)


@dataclass(frozen=True)
class TrainingCost:
    """What the nodes of one job cost: those with GPUs, which are made for it and go after it."""

    fewest: int  # nodes that its GPUs take at least
    nodes: int  # that they take with one for each replica
    hourly: float  # what one node costs by the hour, at most
    currency: str
    cheapest: float | None = None  # the same in the cheapest of several pools

    def most(self, seconds: float) -> float:
        """Return what a training costs with nodes that are made for it and go after it."""
        # A node is paid for from before its first pod until some minutes after its last.
        return self.nodes * (seconds + 15 * 60) * self.hourly / 3600

    def in_words(self, seconds: float) -> str:
        """Describe what it costs: from its own time alone to the most."""
        hourly = self.hourly if self.cheapest is None else self.cheapest
        least = self.fewest * seconds * hourly / 3600
        return f"{self.currency} {least:,.2f} to {self.most(seconds):,.2f} ({self._nodes})"

    def most_in_words(self, seconds: float) -> str:
        return f"at most {self.currency} {self.most(seconds):,.2f} ({self._nodes})"

    def of_nodes(self, nodes: float, seconds: float) -> str:
        return f"{self.currency} {nodes * seconds * self.hourly / 3600:,.2f}"

    @property
    def _nodes(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:g} nodes"
        least = "" if self.cheapest is None else f"{self.cheapest:g} to "
        return f"{nodes} at {least}{self.hourly:g} an hour"
