"""Jobs as tests declare them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobs.config import CATALOG, read
from jobs.model.job import TrainingJob
from jobs.model.volumes import Script
from jobs.rules import Surroundings


def read_jobs(
    section: Mapping[str, Mapping[str, Any]],
) -> tuple[list[TrainingJob], dict[str, Script]]:
    """Return the jobs of a section `slipway:jobs` and the scripts that they have, by job.

    Besides what a stack's file may have, `demo` names an entry of the catalogue, and `unchecked`
    has fields that are set without being checked: what only the API server refuses.
    """
    known = {name: dict(each) for name, each in section.items()}
    unchecked = {name: each.pop("unchecked", {}) for name, each in known.items()}
    demos = {name: known.pop(name) for name in section if "demo" in known[name]}
    wanted = read(known, "jobs", Surroundings())
    assert wanted.problems == [], wanted.problems
    jobs = [*wanted.jobs, *(_demo(name, each) for name, each in demos.items())]
    for job in jobs:
        for field, value in unchecked[job.name].items():
            object.__setattr__(job, field, value)
    return jobs, wanted.scripts


def _demo(name: str, declared: Mapping[str, Any]) -> TrainingJob:
    return replace(CATALOG[declared["demo"]], name=name, args=tuple(declared.get("args", ())))
