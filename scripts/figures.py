"""Prints how large the code is, beside the goals for it: `make check` shows it."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from core.paths import CHECKOUT

FILES = 300
LINES = 33_000
SMALL = 25
"""A module of the product with fewer lines belongs to another one."""
_ENTRY_POINTS = frozenset({"__init__.py", "__main__.py"})


@dataclass(frozen=True)
class Figures:
    """How large a part of the code is.

    Args:
        files: Of Python.
        lines: In them.
        small: The files with fewer lines than `SMALL` that are no entry points.
    """

    files: int
    lines: int
    small: tuple[Path, ...]

    @classmethod
    def of(cls, files: list[Path]) -> "Figures":
        """Count files."""
        lines = {file: len(file.read_bytes().splitlines()) for file in files}
        small = [
            file
            for file, count in lines.items()
            if count < SMALL and file.name not in _ENTRY_POINTS
        ]
        return cls(len(files), sum(lines.values()), tuple(small))

    def __str__(self) -> str:
        return f"{self.files} files, {self.lines:,} lines of Python"


def main() -> None:
    """Print the figures of the product and of its tests."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    ).stdout
    names = [Path(name) for name in listed.split("\0") if name and (CHECKOUT / name).exists()]
    tests = [CHECKOUT / name for name in names if name.parts[0] == "tests"]
    product = Figures.of([CHECKOUT / name for name in names if name.parts[0] != "tests"])
    print(
        f"product: {product} (goal: {FILES} files, {LINES:,} lines), "
        f"{len(product.small)} modules under {SMALL} lines (goal: 0)\n"
        f"tests: {Figures.of(tests)}"
    )


if __name__ == "__main__":
    main()
