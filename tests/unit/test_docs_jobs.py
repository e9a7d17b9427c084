"""docs/jobs.md tells of every field that a job may have, and its default."""

import re
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from jobs.declaration import KEYS
from jobs.spec import TrainingJob

_ROW = re.compile(r"^\| `(?P<field>\w+)` \| (?P<default>[^|]*) \|", re.MULTILINE)


@pytest.fixture
def told(root: Path) -> dict[str, str]:
    rows = _ROW.finditer((root / "docs/jobs.md").read_text())
    return {row["field"]: row["default"].strip().strip("`") for row in rows}


def test_every_field_is_told(told: dict[str, str]) -> None:
    assert sorted(told) == sorted(KEYS)


def test_the_defaults_are_those_of_a_job(told: dict[str, str]) -> None:
    job = TrainingJob(name="any", image="own", command=("train",))
    for name in TrainingJob.__dataclass_fields__:
        value = getattr(job, name)
        if to_camel(name) in told and name not in {"image", "command"} and value:
            assert re.match(rf"{value}\b", told[to_camel(name)]), name
