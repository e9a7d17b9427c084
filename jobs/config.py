"""The jobs that a stack's configuration declares: read, and checked against each other.

A job is an entry of the catalogue with fields overridden, or the user's own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from core.problem import Path, Problem, choices, located, quote
from core.validation import check
from jobs import rules, sources
from jobs.catalog import CATALOG
from jobs.plan import prerequisites
from jobs.rules import Surroundings
from jobs.spec import Script, TrainingJob
from jobs.spec.consistency import NO_PROGRAM
from jobs.spec.volumes import claim_name

_NOT_DECLARED = {"name", "module"}
KEYS = tuple(
    to_camel(name) for name in TrainingJob.__dataclass_fields__ if name not in _NOT_DECLARED
)
"""The keys of a job's declaration."""


@dataclass
class JobsConfig:
    """The jobs of a stack, and what was found about them.

    Args:
        jobs: In the order of their names: Pulumi sorts a configuration's keys.
        scripts: By job, of those that have one.
        problems: Whatever is wrong; with one, nothing may be made.
        warnings: Mistakes with which a job may run all the same.
        skipped: Entries of the catalogue that the cluster can't run, and why.
    """

    jobs: list[TrainingJob] = field(default_factory=list)
    scripts: dict[str, Script] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def read(section: Mapping[str, Any], key: str, around: Surroundings) -> JobsConfig:
    """Return the jobs declared in `section`.

    Args:
        section: What stands under `slipway:jobs`: declarations by name.
        key: Where that is in the configuration.
        around: What is known of the cluster.
    """
    config = JobsConfig()
    for name, declared in section.items():
        job = declare(name, declared, f"{key}.{name}")
        if isinstance(job, TrainingJob):
            _add(job, f"{key}.{name}", around, config)
        else:
            config.problems += job
    config.problems += _clashes(config.jobs, key)
    config.problems += _dependency_problems(config.jobs, section, key)
    for name, job in CATALOG.items():
        reasons = [found.reason for rule, found in rules.judge(job, around) if not rule.warns]
        if name not in section and reasons:
            config.skipped[name] = reasons[0]
    return config


def declare(name: str, declared: object, key: str) -> TrainingJob | list[Problem]:
    """Return a job, or everything that is wrong with its declaration.

    Args:
        name: An entry of the catalogue, whose fields `declared` overrides, or another name.
        declared: Its fields, as decoded from the configuration; None is none.
        key: Where they stand in the configuration.
    """
    fields = {} if declared is None else declared
    if not isinstance(fields, Mapping):
        return [Problem(key, f"{quote(declared)} is not allowed; it takes a map, {{}} for none")]
    known = {field: value for field, value in fields.items() if field in KEYS}
    problems = [
        Problem(f"{key}.{field}", f"there is no such key; {choices(field, KEYS)}")
        for field in fields
        if field not in KEYS
    ]
    base = _base(name)
    job = check(TrainingJob, known, key, base=base)
    if isinstance(job, TrainingJob):
        return problems or job
    if any(each.key == f"{key}.name" for each in job):
        # Contradictions are reported beside a wrong name, too.
        renamed = check(TrainingJob, known, key, base={**base, "name": "job"})
        job += [each for each in renamed if each not in job] if isinstance(renamed, list) else []
    return [*(_placed(each, name, key) for each in job), *problems]


def _base(name: str) -> dict[str, Any]:
    """Return the fields that a declaration overrides, spelt as it spells them."""
    if name not in CATALOG:
        return {"name": name}
    dumped: dict[str, Any] = TypeAdapter(TrainingJob).dump_python(
        CATALOG[name], mode="json", by_alias=True, exclude_none=True
    )
    return dumped


def _placed(problem: Problem, name: str, key: str) -> Problem:
    """Return a problem at its place in the configuration: the name is the job's own key."""
    if problem.key == f"{key}.name":
        return Problem(key, problem.text.replace(f"{quote(name)} is", f"the name {quote(name)} is"))
    if problem == Problem(key, NO_PROGRAM):
        known = choices(name, CATALOG.keys())
        text = f"there is no such job in the catalogue; {known}. As a job of one's own it"
        return Problem(key, f"{text} {NO_PROGRAM}")
    return problem


def _add(job: TrainingJob, key: str, around: Surroundings, config: JobsConfig) -> None:
    """Add a job with the files of its program, and what the rules find in it."""
    config.jobs.append(job)
    if job.script is not None:
        script = sources.read_script(job, key)
        if isinstance(script, Script):
            config.scripts[job.name] = script
            around = replace(around, files=script.sources)
        else:
            config.problems.append(script)
    if (image := sources.image_spec(job)) is not None:
        wrong = image.problems()
        config.problems += [Problem(f"{key}.build.{name}", text) for name, text in wrong.items()]
        # Only the rules for elastic jobs look into a build, and a context may be large.
        if not wrong and job.elastic is not None:
            around = replace(around, files=sources.read_build(image))
    for rule, finding in rules.judge(job, around):
        (config.warnings if rule.warns else config.problems).append(rule.problem(finding, key))


def _clashes(jobs: list[TrainingJob], key: str) -> Iterator[Problem]:
    """Yield where two jobs would make one and the same claim, and so share its files."""
    makers: dict[str, str] = {}
    for job in jobs:
        for name, volume in job.volumes.items():
            if volume.size is None and volume.host_path is None:
                continue
            claim = claim_name(job.name, name, volume)
            place = located(key, (job.name, "volumes", name))
            if (first := makers.setdefault(claim, place)) != place:
                text = f"would be the same claim {quote(claim)} as {first}; rename the volume"
                yield Problem(place, text)


def _dependency_problems(
    jobs: Sequence[TrainingJob], declared: Collection[str], key: str
) -> Iterator[Problem]:
    """Yield whatever is wrong with the dependencies and inputs of jobs.

    Args:
        jobs: Those whose declarations are right.
        declared: The names of all that the stack declares.
        key: Where it does.
    """
    known = {job.name: job for job in jobs}
    for job in jobs:
        for path, name in _references(job):
            place = located(key, (job.name, *path))
            others = [other for other in declared if other != job.name]
            if (text := _refusal(name, job.name, others)) is not None:
                yield Problem(place, text)
            elif path[0] == "inputs" and name in known and known[name].outputs is None:
                text = f"{quote(name)} has no `outputs`, so no file of it stays; give it some"
                yield Problem(place, f"{text} (docs/files.md#outputs)")
    yield from _cycles(known, key)


def _references(job: TrainingJob) -> Iterator[tuple[Path, str]]:
    """Yield where `job` names another one, in the configuration's spelling, and which."""
    for index, name in enumerate(job.depends_on):
        yield ("dependsOn", index), name
    for name, source in job.inputs.items():
        yield ("inputs", name, "job"), source.job


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
        steps = " needs ".join([*cycle, cycle[0]])
        yield Problem(
            located(key, (cycle[0],)),
            f"is in a cycle, in which no job can be the first: {steps}; take one `dependsOn` or "
            "input out of it",
        )
        graph[cycle[0]].discard(cycle[1 % len(cycle)])
