"""Jobs as tests declare them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobs.config import declare, read
from jobs.model.job import TrainingJob
from jobs.model.volumes import Script
from jobs.rules.rule import Surroundings


def read_jobs(
    section: Mapping[str, Mapping[str, Any]],
) -> tuple[list[TrainingJob], dict[str, Script]]:
    """Return the jobs of a section `slipway:jobs` and the scripts that they have, by job.

    Besides what a stack's file may have, `demo` names the entry of the catalogue that a job with
    another name is.
    """
    own = {name: each for name, each in section.items() if "demo" not in each}
    wanted = read(own, "jobs", Surroundings())
    assert wanted.problems == [], wanted.problems
    demos = [_demo(name, **each) for name, each in section.items() if "demo" in each]
    return [*wanted.jobs, *demos], wanted.scripts


def _demo(name: str, demo: str, **fields: Any) -> TrainingJob:
    found = declare(demo, fields, f"jobs.{name}")
    assert isinstance(found, TrainingJob), found
    return replace(found, name=name)
