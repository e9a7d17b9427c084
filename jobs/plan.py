"""The resources, costs and order of a stack's jobs."""

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
    """Return the names of the jobs that must succeed before `job` starts."""
    return tuple(dict.fromkeys((*job.depends_on, *(each.job for each in job.inputs.values()))))


def not_run(
    jobs: Sequence[TrainingJob], states: Mapping[str, str | None], passed: Mapping[str, bool]
) -> dict[str, str]:
    """Return why each job with an unmet prerequisite did not run, keyed by job name.

    `states` maps each job to its final state, or to None if the job did not run. `passed` states
    whether each job last passed its gate, which may have been in an earlier `up`.
    """
    reasons = dict[str, str]()
    ends = dict(states)
    words = {None: "did not run", "Succeeded": "failed its gate"}
    for job in Schedule(jobs, None).ordered:
        blamed = [
            f"{other}, which {words.get(ends[other], f'ended {ends[other]}')}"
            for other in prerequisites(job)
            if ends[other] is None or not passed[other]
        ]
        if blamed:
            reasons[job.name] = f"it needs {' and '.join(blamed)}"
            ends[job.name] = None
    return reasons


def shares(job: TrainingJob) -> list[Share]:
    """Return the resources that each replica of `job` requests."""
    return [share(job, role) for role, count in roles(job).items() for _ in range(count)]


def fits(requests: Iterable[Share], capacity: Capacity) -> bool:
    """Return whether pods with these requests fit in the cluster at the same time."""
    return _fit([*map(_need, requests)], capacity)


def _need(share: Share) -> list[Decimal]:
    return [Decimal(share.gpus), share.cores, Decimal(share.bytes)]


def _fit(needs: list[list[Decimal]], capacity: Capacity) -> bool:
    """Return whether pods with these needs fit in the cluster at the same time."""
    node = [Decimal(capacity.gpus), capacity.cpu, Decimal(capacity.memory)]
    totals = map(sum, zip(*needs, strict=True))  # faster than placing them
    if any(total > room * capacity.nodes for total, room in zip(totals, node, strict=False)):
        return False
    # First fit, largest first, is nearly always optimal if all nodes are alike.
    rooms = [node] * capacity.nodes
    for needed in sorted(needs, reverse=True):
        places = (i for i, room in enumerate(rooms) if all(map(operator.le, needed, room)))
        if (place := next(places, None)) is None:
            return False
        rooms[place] = [*map(operator.sub, rooms[place], needed)]
    return True


def described(requests: Sequence[Share]) -> str:
    """Describe the resources that pods need, such as "2 pods with 4 cores, 2 GiB in total"."""
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
    capacity: Capacity | None  # of the cluster; None if unknown

    @cached_property
    def ordered(self) -> list[TrainingJob]:
        """The jobs, prerequisites first; jobs with image builds, which take minutes, come last.

        Raises:
            StopIteration: the jobs' dependencies form a cycle.
        """
        rest = sorted(self.jobs, key=lambda job: bool(job.build or job.requirements))
        order = list[TrainingJob]()
        while rest:
            later = {job.name for job in rest}
            order.append(next(job for job in rest if later.isdisjoint(prerequisites(job))))
            rest.remove(order[-1])
        return order

    @cached_property
    def waits(self) -> dict[str, tuple[str, ...]]:
        """The names of the jobs that must finish before each job fits in the cluster, keyed by job.

        A job waits for the first jobs in `ordered`, even for those that need no training, until the
        cluster has room for it and for every other job that may be running then. If the capacity is
        unknown, no job waits.
        """
        waiting: dict[str, tuple[str, ...]] = {}
        ended: dict[str, set[str]] = {}
        """For each job: the job itself, and all jobs that certainly finish before it starts."""
        needs = {job.name: [*map(_need, shares(job))] for job in self.jobs}
        for job in self.ordered:
            over = set().union(*(ended[name] for name in prerequisites(job)))
            beside = [name for name in waiting if name not in over]
            count = self._waited(beside, job.name, needs)
            implied, waits = set[str](), list[str]()
            for name in reversed(beside[:count]):
                if name not in implied:
                    waits.insert(0, name)
                    implied |= ended[name]
            waiting[job.name] = tuple(waits)
            ended[job.name] = over | implied | {job.name}
        return waiting

    def _waited(self, beside: list[str], job: str, needs: Mapping[str, list[list[Decimal]]]) -> int:
        """Return how many of the first jobs in `beside` must finish before `job` has room."""
        room = self.capacity
        if room is None:
            return 0

        def has_room(ended: int) -> bool:
            return _fit([need for name in (*beside[ended:], job) for need in needs[name]], room)

        return bisect_left(range(len(beside)), True, key=has_room)

    def text(self, idle: Collection[str] = ()) -> str:
        """Describe the jobs' resources, the cluster's capacity and the jobs' order, if known.

        `idle` are jobs that need no training, since they already have results.
        """
        parts = []
        if len(self.jobs) > 1:
            requests = [share for job in self.jobs for share in shares(job)]
            parts.append(f"the stack's {len(self.jobs)} jobs need {described(requests)}")
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
            parts.append(f"the jobs to train run in this order: {listed}")
        return "; ".join(parts)


@dataclass(frozen=True)
class TrainingCost:
    """The costs of one job's GPU nodes, which are created for the job and then removed."""

    fewest: int  # the fewest nodes for its GPUs
    nodes: int  # their number with one per replica
    hourly: float  # the highest price of a node per hour
    currency: str
    cheapest: float | None = None  # hourly price in the cheapest of several pools

    def most(self, seconds: float) -> float:
        """Return the highest cost of a run of this length, with a node for each replica."""
        # A node is billed from before its first pod starts until minutes after its last ends.
        return self.nodes * (seconds + 15 * 60) * self.hourly / 3600

    def in_words(self, seconds: float) -> str:
        """Describe the range of costs, from the fewest nodes at the lowest price to the highest."""
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
