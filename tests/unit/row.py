"""A row of `pulumi up` for the tests of handlers."""

import threading
from dataclasses import dataclass, field


@dataclass
class Row:
    """A resource's row in `pulumi up`, as a list."""

    urn: str = "urn"
    cancelled: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)

    def status(self, message: str) -> None:
        self.said.append(message)

    info = warn = status
