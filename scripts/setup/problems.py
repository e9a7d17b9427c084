"""What set-up can't do by itself, kept until the end so that all of it is said at once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A tool that can't be had: why, and what the person can do about it."""

    tool: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.why}. {self.remedy}".rstrip()


class SetupFailed(Exception):
    """Set-up ended with problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
