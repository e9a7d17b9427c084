"""Read and check a stack's jobs: the user's own and those from the catalogue."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from core import manifests
from core.manifests import KEPT_CLAIM
from core.paths import CHECKOUT
from core.problem import Path, Problem, choices, located, quote
from core.validation import check
from images.build.trainer import trainer
from jobs import sources
from jobs.adapt import wants_gpus
from jobs.model.consistency import NO_PROGRAM
from jobs.model.job import TrainingJob, fields_of
from jobs.model.names import DATA_CACHE
from jobs.model.volumes import Script, claim_name
from jobs.plan import prerequisites
from jobs.rules import containers, distributed, nodes
from jobs.rules.rule import Finding, Rule, Surroundings

KEYS = tuple(to_camel(name) for name in fields_of(TrainingJob) if name not in {"name", "module"})
"""The keys that a job's declaration may contain."""

_DEMOS: Mapping[str, Any] = manifests.read(CHECKOUT / "jobs/catalog.yaml")
_JOB = TypeAdapter(TrainingJob)
CATALOG: Mapping[str, TrainingJob] = {
    name: _JOB.validate_json(json.dumps({**fields, "name": name}), by_alias=True, by_name=False)
    for name, fields in _DEMOS.items()
}
"""The jobs in the catalogue, keyed by name."""
RULES: Sequence[Rule] = [
    each
    for module in (distributed, nodes, containers)
    for each in vars(module).values()
    if isinstance(each, Rule)
]


@dataclass(frozen=True)
class JobsConfig:
    """A stack's jobs, their scripts, and the problems with their declarations."""

    jobs: list[TrainingJob] = field(default_factory=list)  # in configuration order
    scripts: dict[str, Script] = field(default_factory=dict)  # by job name
    problems: list[Problem] = field(default_factory=list)  # any of them stops the deployment
    skipped: dict[str, str] = field(default_factory=dict)  # why the cluster can't run a job


def read(section: Mapping[str, Any], key: str, around: Surroundings) -> JobsConfig:
    """Return the jobs declared in `section`, which is at `key` in the configuration."""
    config = JobsConfig()
    for name, declared in section.items():
        job = declare(name, declared, f"{key}.{name}")
        if isinstance(job, TrainingJob):
            _add(job, f"{key}.{name}", around, config)
        else:
            config.problems.extend(job)
    config.problems.extend(_dependency_problems(config.jobs, section, key))
    for name, job in CATALOG.items():
        reasons = [finding.reason for _, finding in mistakes(job, around)]
        if name not in section and reasons:
            config.skipped[name] = reasons[0]
    return config


def declare(name: str, declared: object, key: str) -> TrainingJob | list[Problem]:
    """Return a job, or all problems with its declaration.

    `declared` contains the fields at `key` in the configuration, or is None for no fields. If the
    catalogue has an entry with the same name, these fields override the entry's.
    """
    fields = {} if declared is None else declared
    if not isinstance(fields, Mapping):
        return [Problem(key, f"{quote(declared)} is not allowed; use a map, or {{}} for no fields")]
    written = {field: value for field, value in fields.items() if field in KEYS} | {"name": name}
    problems = [
        Problem(f"{key}.{field}", f"there is no such key; {choices(field, KEYS)}")
        for field in fields
        if field not in KEYS
    ]
    job = check(TrainingJob, written, key, base=_DEMOS.get(name), presumed=lambda: {"name": "job"})
    if isinstance(job, TrainingJob):
        return problems or job
    return [*(_placed(each, name, key) for each in job), *problems]


def _placed(problem: Problem, name: str, key: str) -> Problem:
    """Reword a problem for the configuration, where a job's name is its key and not a field."""
    if problem.key == f"{key}.name":
        return Problem(key, problem.text.replace(f"{quote(name)} is", f"the name {quote(name)} is"))
    if problem == Problem(key, NO_PROGRAM):
        allowed = choices(name, CATALOG.keys())
        text = f"there is no such job in the catalogue; {allowed}. If it is your own job, it"
        return Problem(key, f"{text} {NO_PROGRAM}")
    return problem


def _add(job: TrainingJob, key: str, around: Surroundings, config: JobsConfig) -> None:
    """Add a job to `config`, with its script and the problems of its files and by rules."""
    config.jobs.append(job)
    if job.script is not None:
        demo = CATALOG.get(job.name)
        # Scripts in the catalogue are in the checkout; others are relative to the stack file.
        is_ours = demo is not None and demo.script == job.script
        script = sources.read_script(job, key, CHECKOUT if is_ours else None)
        if isinstance(script, Script):
            config.scripts[job.name] = script
            python = (path for path in script.files if path.endswith(".py"))
            texts = {path: script.files[path].decode(errors="replace") for path in python}
            around = replace(around, files=texts)
        else:
            config.problems.append(script)
    base = trainer(job.torch or around.torch, gpus=around.pool is not None and wants_gpus(job))
    if (image := sources.image_spec(job, base.name)) is not None:
        wrong = image.problems()
        place = key if job.build is None else f"{key}.build"
        config.problems.extend(Problem(f"{place}.{name}", text) for name, text in wrong.items())
        if not wrong and job.build is not None:
            # Only the rules for elastic jobs read a build's files, and a context may be large.
            files = around.files if job.elastic is None else sources.read_build(image)
            around = replace(around, files=files, has_trainer=image.wants_trainer)
    for rule, finding in mistakes(job, around):
        config.problems.append(rule.problem(finding, key))


def _dependency_problems(
    jobs: Sequence[TrainingJob], declared: Collection[str], key: str
) -> Iterator[Problem]:
    """Yield problems between jobs; `declared` also contains the names of invalid jobs."""
    for job in jobs:
        others = [name for name in declared if name != job.name]
        references: list[tuple[Path, str]] = [
            *((("dependsOn", index), name) for index, name in enumerate(job.depends_on)),
            *((("inputs", name, "job"), source.job) for name, source in job.inputs.items()),
        ]
        for path, name in references:
            if name == job.name:
                text = "is the job itself, which can't wait for itself to finish"
            elif any(each.name == name and each.wait is False for each in jobs):
                text = (
                    f"{quote(name)} has `wait: false`, so no job can depend on it; unset its `wait`"
                )
            elif name in others:
                continue
            elif name in CATALOG:
                text = (
                    f"{quote(name)} is in the catalogue, but not in this stack; add it alongside "
                    f"this job (`{name}: {{}}`)"
                )
            else:
                text = f"there is no job {quote(name)} in this stack; {choices(name, others)}"
            yield Problem(located(key, (job.name, *path)), text)
        for index, name in enumerate(job.was):
            if name in declared or any(name in each.was for each in jobs if each is not job):
                text = f"{quote(name)} is, or was, the name of another job in this stack; remove it"
                yield Problem(located(key, (job.name, "was", index)), text)
    yield from _shared_claims(jobs, key)
    yield from _cycles(jobs, key)


def _shared_claims(jobs: Sequence[TrainingJob], key: str) -> Iterator[Problem]:
    """Yield a problem for each volume whose new claim would have the name of another claim."""
    claims = {KEPT_CLAIM: "the stack's files", DATA_CACHE: "the jobs' `data`"}
    for job in jobs:
        for name, volume in job.volumes.items():
            if volume.claim is None and volume.empty_dir is None:
                if (own := claim_name(job.origin, name, volume)) in claims:
                    text = f"its claim would be {own}, as that of {claims[own]}; rename the volume"
                    yield Problem(located(key, (job.name, "volumes", name)), text)
                claims[own] = f"the volume {name} of job {job.name}"


def lost_inputs(jobs: Sequence[TrainingJob], key: str) -> Iterator[Problem]:
    """Yield a problem for each input from a job without `outputs`, if the stack keeps no files."""
    kept = {job.name for job in jobs if job.outputs is not None}
    for job in jobs:
        for name, source in job.inputs.items():
            if source.job not in kept:
                yield Problem(
                    located(key, (job.name, "inputs", name, "job")),
                    f"{quote(source.job)} has no `outputs`, and the stack keeps no files, so the "
                    "job's files are lost; set its `outputs` (docs/files.md#outputs)",
                )


def _cycles(jobs: Sequence[TrainingJob], key: str) -> Iterator[Problem]:
    """Yield a problem for a dependency cycle, if there is one."""
    names = {job.name for job in jobs}
    graph = {job.name: names.intersection(prerequisites(job)) - {job.name} for job in jobs}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]  # each job needs the next; the first and last are the same
        text = (
            f"is part of a dependency cycle: {' needs '.join(cycle)}; "
            "remove one `dependsOn` or input to break it"
        )
        yield Problem(located(key, (cycle[0],)), text)


def mistakes(job: TrainingJob, around: Surroundings) -> list[tuple[Rule, Finding]]:
    """Return what all rules find in a job, without duplicates."""
    findings = ((rule, finding) for rule in RULES for finding in rule.find(job, around))
    # The same mistake in the Master and the Workers is reported once.
    return list(dict.fromkeys(findings))
