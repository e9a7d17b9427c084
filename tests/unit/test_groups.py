"""Which tests one process runs: every one that needs something large is in a group."""

from pathlib import Path

import pytest

from tests.groups import BY_FILE, BY_FIXTURE, group

TESTS = Path(__file__).resolve().parent.parent
FILES = [
    file.relative_to(TESTS)
    for folder in ("engine", "runs", "trainer", "local")
    for file in sorted((TESTS / folder).glob("test_*.py"))
]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_file_that_needs_a_cluster_or_an_image_is_in_a_group(file: Path) -> None:
    assert group(file, []) is not None


def test_every_group_has_files_or_a_fixture() -> None:
    used = {group(file, []) for file in FILES} | {*BY_FIXTURE.values()}
    assert used == {*BY_FILE}
    beginnings = [each for group in BY_FILE.values() for each in group]
    assert [each for each in beginnings if not any(str(f).startswith(each) for f in FILES)] == []
