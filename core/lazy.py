"""Classes and functions that are imported when they are first needed.

A table of many, of which a command needs few, names them; what they import is loaded only then.
"""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any


@dataclass(frozen=True)
class Lazy:
    """A class or a function by its full name, such as `clusters.kind.tool.KindHandler`.

    Calling it imports it and calls that.
    """

    name: str

    def load(self) -> Any:
        """Import the module and return what is called so in it."""
        return resolve_name(self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)
