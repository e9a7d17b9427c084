"""What Pulumi's file backend holds for a stack, read from its files: the state and the locks."""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.paths import CHECKOUT
from scripts.environment import backend


@dataclass(frozen=True)
class Lock:
    """A lock on a stack: which process holds it, where, since when."""

    pid: int
    hostname: str
    timestamp: str


def exists(stack: str) -> bool:
    """Whether there is a stack, empty or not. Asked of the file, so that it needs no CLI."""
    return (_directory("stacks", _project()) / f"{stack}.json").exists()


def locks(stack: str) -> list[Lock]:
    """The locks on a stack; more than one only while processes race for it."""
    directory = _directory("locks", "organization", _project(), stack)
    held = [json.loads(file.read_text()) for file in sorted(directory.glob("*.json"))]
    return [Lock(lock["pid"], lock["hostname"], lock["timestamp"]) for lock in held]


def _directory(*parts: str) -> Path:
    return backend().joinpath(".pulumi", *parts)


def _project() -> str:
    name: str = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["name"]
    return name
