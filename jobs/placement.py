"""Which jobs fit into a cluster, and which have to make room for others. Pure."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from clusters.capacity import Capacity
from jobs.dependencies import prerequisites
from jobs.spec import TrainingJob
from jobs.spec.resources import Share, roles, share


def shares(job: TrainingJob) -> list[Share]:
    """Return what each replica of `job` asks for."""
    return [share(job, role) for role, count in roles(job).items() for _ in range(count)]


def fits(wanted: Iterable[Share], capacity: Capacity) -> bool:
    """Return whether pods with these shares find room at the same time.

    The largest are placed first, each on the first node that has room: with nodes of one kind that
    finds a place in all but contrived cases.
    """
    ordered = sorted(wanted, key=lambda each: (each.gpus, each.cores, each.bytes), reverse=True)
    empty = (Decimal(capacity.gpus), capacity.cpu, Decimal(capacity.memory))
    rooms = [empty] * capacity.nodes
    for each in ordered:
        asked = (Decimal(each.gpus), each.cores, Decimal(each.bytes))
        places = (i for i, room in enumerate(rooms) if all(map(operator.le, asked, room)))
        place = next(places, None)
        if place is None:
            return False
        gpus, cores, memory = map(operator.sub, rooms[place], asked)
        rooms[place] = (gpus, cores, memory)
    return True


def makes_room(
    jobs: Sequence[TrainingJob], capacity: Capacity | None
) -> dict[str, tuple[str, ...]]:
    """Return for each job those that must have ended before there is room for it.

    Whatever runs beside a job then, the cluster has room for all of it. It is the first jobs that
    are waited for. All of them count, since nobody knows here whether one is to be trained at all.
    Where nobody knows what the cluster has, none is, and the scheduler decides.

    Args:
        jobs: Each after those that it needs (`jobs.dependencies.ordered`).
        capacity: What the cluster has for them.
    """
    found: dict[str, tuple[str, ...]] = {}
    ended: dict[str, frozenset[str]] = {}
    """By job, all that have ended for sure when it starts."""
    for number, job in enumerate(jobs):
        over = _and_before(prerequisites(job), ended)
        waited = []
        while capacity is not None:
            beside = [other for other in jobs[:number] if other.name not in over]
            if not beside or fits((s for each in [*beside, job] for s in shares(each)), capacity):
                break
            waited.append(beside[0].name)
            over |= _and_before([beside[0].name], ended)
        implied = _and_before(prerequisites(job), ended).union(*(ended[name] for name in waited))
        found[job.name] = tuple(name for name in waited if name not in implied)
        ended[job.name] = over
    return found


def _and_before(names: Iterable[str], ended: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the jobs of these names, and all that end before one of them starts."""
    return frozenset().union(*({name} | ended[name] for name in names))
