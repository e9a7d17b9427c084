"""What the jobs of a stack need of each other, and whether they can have it. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from core.problem import Path, Problem, located
from core.text import choices, quote
from jobs.catalog import CATALOG
from jobs.spec import TrainingJob


def prerequisites(job: TrainingJob) -> tuple[str, ...]:
    """Return the jobs that must have succeeded before `job` starts."""
    return tuple(dict.fromkeys((*job.depends_on, *(each.job for each in job.inputs.values()))))


def ordered(jobs: Sequence[TrainingJob]) -> list[TrainingJob]:
    """Return each job after those that it needs, otherwise in the order in which they are.

    Raises:
        graphlib.CycleError: there is no such order.
    """
    place = {job.name: number for number, job in enumerate(jobs)}
    sorter = TopologicalSorter({job.name: prerequisites(job) for job in jobs})
    sorter.prepare()
    found, ready = [], list[int]()
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, place[name])
        job = jobs[heappop(ready)]
        found.append(job)
        sorter.done(job.name)
    return found


def problems(jobs: Sequence[TrainingJob], declared: Collection[str], key: str) -> Iterator[Problem]:
    """Yield whatever is wrong with what the jobs want of each other.

    Args:
        jobs: Those whose declarations are right.
        declared: The names of all that the stack declares.
        key: Where it does.
    """
    known = {job.name: job for job in jobs}
    for job in jobs:
        for path, name in _named(job):
            place = located(key, (job.name, *path))
            others = [other for other in declared if other != job.name]
            if (text := _refusal(name, job.name, others)) is not None:
                yield Problem(place, text)
            elif path[0] == "inputs" and name in known and known[name].outputs is None:
                text = f"{quote(name)} has no `outputs`, so no file of it stays; give it some"
                yield Problem(place, f"{text} (docs/files.md#outputs)")
    yield from _cycles(known, key)


def _named(job: TrainingJob) -> Iterator[tuple[Path, str]]:
    """Yield where `job` names another one, in the configuration's spelling, and which."""
    for index, name in enumerate(job.depends_on):
        yield ("dependsOn", index), name
    for name, wanted in job.inputs.items():
        yield ("inputs", name, "job"), wanted.job


def _refusal(name: str, own: str, others: Sequence[str]) -> str | None:
    """Return why a job can't need the one of that name; None when it can."""
    if name in others:
        return None
    if name == own:
        return "is the job itself, which can't wait for its own end"
    if name in CATALOG:
        return (
            f"{quote(name)} is in the catalogue, but not in this stack; declare it beside this job "
            f"(`{name}: {{}}`)"
        )
    return f"there is no job {quote(name)} in this stack; {choices(name, others)}"


def _cycles(jobs: Mapping[str, TrainingJob], key: str) -> Iterator[Problem]:
    """Yield each cycle once, at the job in it that comes first."""
    graph = {name: set(prerequisites(job)) & (jobs.keys() - {name}) for name, job in jobs.items()}
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            # Each comes before the next one, and the last is the first again.
            backwards = list(error.args[1])
        else:
            return
        cycle = backwards[:0:-1]
        start = min(range(len(cycle)), key=lambda index: [*jobs].index(cycle[index]))
        cycle = [*cycle[start:], *cycle[:start]]
        said = " needs ".join([*cycle, cycle[0]])
        yield Problem(
            located(key, (cycle[0],)),
            f"is in a cycle, in which no job can be the first: {said}; take one `dependsOn` or "
            "input out of it",
        )
        graph[cycle[0]].discard(cycle[1 % len(cycle)])


def not_run(
    jobs: Sequence[TrainingJob], states: Mapping[str, str | None], passed: Mapping[str, bool]
) -> dict[str, str]:
    """Return why jobs did not run that were to follow others.

    Args:
        jobs: All of them.
        states: How each ended; None for one that did not run.
        passed: Whether each passed its gate.
    """
    found = {}
    for job in jobs:
        blamed = [
            _blamed(other, states[other])
            for other in prerequisites(job)
            if states[other] is None or not passed[other]
        ]
        if states[job.name] is None and blamed:
            found[job.name] = f"it needs {' and '.join(blamed)}"
    return found


def _blamed(job: str, state: str | None) -> str:
    if state is None:
        return f"{job}, which did not run"
    ended = "missed what its gate asks for" if state == "Succeeded" else f"ended {state}"
    return f"{job}, which {ended}"
