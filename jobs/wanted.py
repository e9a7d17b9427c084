"""The jobs that a stack asks for: read, checked against each other's and the cluster's limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.capacity import Capacity
from clusters.pools import GpuPool, NodePool
from clusters.reach import Reach
from core.paths import CHECKOUT
from core.problem import Problem, located
from core.text import quote
from images.build.job import JobImageSpec
from jobs import build_files, dependencies, policy, script_files
from jobs.catalog import CATALOG
from jobs.declaration import declare
from jobs.policy import Case
from jobs.script import Script
from jobs.spec import TrainingJob
from jobs.spec.mounts import claim_name


@dataclass(frozen=True)
class Site:
    """What is known of the cluster before it is there; None is not known.

    Args:
        gpus_per_node: GPUs of one node.
        capacity: What it has for jobs.
        pool: Its nodes with GPUs.
        reach: The only registry that its nodes get images from; None where they get any.
        pools: All that nodes are paid for in.
    """

    gpus_per_node: int | None = None
    capacity: Capacity | None = None
    pool: GpuPool | None = None
    reach: Reach | None = None
    pools: tuple[NodePool, ...] = ()


@dataclass
class Wanted:
    """What is to run, and what there is to say about it.

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


def read(section: Mapping[str, Any], key: str, site: Site) -> Wanted:
    """Return the jobs declared in `section`.

    Args:
        section: What stands under `slipway:jobs`: declarations by name.
        key: Where that is in the configuration.
        site: Where they are to run.
    """
    wanted = Wanted()
    for name, declared in section.items():
        place = f"{key}.{name}"
        job = declare(name, declared, place)
        if isinstance(job, TrainingJob):
            _take(job, place, site, wanted)
        else:
            wanted.problems += job
    wanted.problems += _clashes(wanted.jobs, key)
    wanted.problems += dependencies.problems(wanted.jobs, section, key)
    wanted.skipped = {
        name: reason
        for name, job in CATALOG.items()
        if name not in section and (reason := _refusal(job, site)) is not None
    }
    return wanted


def _take(job: TrainingJob, key: str, site: Site, wanted: Wanted) -> None:
    files: dict[str, str] = {}
    if job.script is not None:
        found = script_files.read(job, key)
        if isinstance(found, Script):
            wanted.scripts[job.name] = found
            files = found.sources
        else:
            wanted.problems.append(found)
    if (image := image_of(job)) is not None:
        wrong = image.problems()
        wanted.problems += [Problem(f"{key}.build.{name}", text) for name, text in wrong.items()]
        # Only the rules for elastic jobs look into a build, and a context may be large.
        if not wrong and job.elastic is not None:
            files = build_files.read(image.context, image.dockerfile)
    case = _case(job, site, files)
    for verdict in policy.judge(case, key):
        told = wanted.warnings if verdict.rule.warns else wanted.problems
        told.append(verdict.problem)
    wanted.jobs.append(job)


def _case(job: TrainingJob, site: Site, files: Mapping[str, str] | None = None) -> Case:
    known = {} if files is None else files
    return Case(job, site.gpus_per_node, site.capacity, known, site.pool, site.reach, site.pools)


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


def image_of(job: TrainingJob) -> JobImageSpec | None:
    """Return the image that a job with a `build` brings."""
    if job.build is None:
        return None
    return JobImageSpec(job.name, CHECKOUT / job.build.context, job.build.dockerfile)


def _refusal(job: TrainingJob, site: Site) -> str | None:
    """Return why the cluster can't run an entry of the catalogue, None when it can."""
    case = _case(job, site)
    return next(_refusals(case), None)


def _refusals(case: Case) -> Iterator[str]:
    for verdict in policy.judge(case, ""):
        if not verdict.rule.warns:
            yield verdict.reason
