"""What examples/tracked/README.md shows is what there is."""

import difflib
import re
from pathlib import Path

import yaml

from infra.paths import CHECKOUT
from jobs.declaration import declare
from jobs.spec import TrainingJob

_DIRECTORY = CHECKOUT / "examples/tracked"
_PAIR = ("plain.py", "tracked_elastic.py")
_ADDED_AT_MOST = 70


def _block(language: str) -> str:
    """Return the one block in this language."""
    text = (_DIRECTORY / "README.md").read_text()
    [block] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(block)


def _lines(name: str) -> list[str]:
    return (_DIRECTORY / name).read_text().splitlines(keepends=True)


def test_the_difference_that_the_readme_shows_is_the_whole_one_and_small() -> None:
    plain, elastic = map(_lines, _PAIR)
    difference = list(difflib.unified_diff(plain, elastic, *_PAIR, n=1))
    assert _block("diff") == "".join(difference), "write the difference into the README anew"
    added = [line for line in difference[2:] if line.startswith("+")]
    assert len(added) <= _ADDED_AT_MOST


def test_the_jobs_that_the_readme_declares_are_valid() -> None:
    declared = yaml.safe_load(_block("yaml"))["config"]["slipway:jobs"]
    for name, fields in declared.items():
        job = declare(name, fields, f"slipway:jobs.{name}")
        assert isinstance(job, TrainingJob), job
        assert Path(CHECKOUT, fields["script"]).is_file()
