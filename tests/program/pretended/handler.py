"""Its resource, and the way in which it gets images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.context import Context
from core.handler import Handler
from images.targets.target import Target


class PretendedHandler(Handler):
    """Creates nothing."""

    def create(self, _inputs: Any, _context: Context) -> Any:
        return "it", {}


def remove(directory: Path) -> None:
    directory.rmdir()


@dataclass(frozen=True)
class Shelf(Target):
    """Has no image, and takes each."""

    shelf: str

    @property
    def is_up(self) -> bool:
        return True

    def digest(self, _name: str) -> str | None:
        return None

    def load(self, *_: Any) -> None: ...
