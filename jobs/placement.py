"""Which jobs fit into a cluster, and which of them side by side. Pure."""

import operator
from collections.abc import Iterable, Sequence
from decimal import Decimal

from clusters.capacity import Capacity
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


def waves(jobs: Sequence[TrainingJob], capacity: Capacity | None) -> list[list[TrainingJob]]:
    """Return the jobs in groups that run side by side, one group after the other.

    They keep their order. Where nobody knows what the cluster has, all are one group, and the
    scheduler decides.
    """
    groups: list[list[TrainingJob]] = []
    for job in jobs:
        if groups and (
            capacity is None or fits((s for j in [*groups[-1], job] for s in shares(j)), capacity)
        ):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups
