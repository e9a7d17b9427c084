"""The figures count what is there."""

from pathlib import Path

from tests.figures import SMALL, figures


def test_modules_that_are_too_small_are_counted_and_entry_points_are_not(tmp_path: Path) -> None:
    lines = {"__init__.py": 1, "small.py": SMALL - 1, "enough.py": SMALL}
    for name, count in lines.items():
        (tmp_path / name).write_text("pass\n" * count)
    assert figures(tmp_path.iterdir()) == (3, 2 * SMALL, 1)
