"""Prints how large the code is, beside the goals for it: `make check` shows it."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from core.paths import CHECKOUT

FILES = 310
LINES = 38_500
LINES_OF_TESTS = 38_000
WORDS = 22_000
"""Of README, changelog and docs/."""
SMALL = 25
"""A module of the product with fewer lines belongs to another one."""
_ENTRY_POINTS = frozenset({"__init__.py", "__main__.py", "sitecustomize.py"})


def figures(files: Iterable[Path]) -> tuple[int, int, int]:
    """Return how many files these are, their lines, and how many modules of them are small."""
    counts = {file: len(file.read_bytes().splitlines()) for file in files}
    small = [file for file in counts if counts[file] < SMALL and file.name not in _ENTRY_POINTS]
    return len(counts), sum(counts.values()), len(small)


def main() -> None:
    """Print the figures of the product, but for examples and generated code, and of its tests."""
    command = ["git", "ls-files", "-z", "*.py"]
    listed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    names = [Path(name) for name in listed.stdout.split("\0") if (CHECKOUT / name).is_file()]
    tests = {name for name in names if name.parts[0] == "tests"}
    others = {name for name in names if name.parts[0] in {"docs", "examples", "sdk"}}
    product = [name for name in names if name not in tests | others]
    files, lines, small = figures(CHECKOUT / name for name in product)
    print(
        f"product: {files} files, {lines:,} lines of Python (goal: {FILES} files, {LINES:,} lines),"
        f" {small} modules under {SMALL} lines (goal: 0)"
    )
    files, lines, _ = figures(CHECKOUT / name for name in tests)
    print(f"tests: {files} files, {lines:,} lines of Python (goal: {LINES_OF_TESTS:,} lines)")
    pages = [CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md", *(CHECKOUT / "docs").glob("*.md")]
    words = sum(len(page.read_text().split()) for page in pages)
    print(f"docs: {len(pages)} pages, {words:,} words (goal: {WORDS:,} words)")


if __name__ == "__main__":
    main()
