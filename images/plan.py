"""What an engine is given to build an image."""

from pathlib import Path
from typing import Protocol

from images.engines import Engine, Plan
from images.steps import Reporter, Runner


class Content(Protocol):
    """What is in an image, and what it is called after it."""

    @property
    def name(self) -> str:
        """Its repository's name."""

    @property
    def context(self) -> Path:
        """Where its own files lie."""

    @property
    def content_hash(self) -> str:
        """Changes with anything that is asked for."""

    @property
    def is_settled(self) -> bool:
        """Whether `reference` is known already."""

    def settle(self, reporter: Reporter) -> None:
        """Do what it takes to know it."""

    @property
    def reference(self) -> str:
        """What the image is called where it is built; it changes with anything that goes in."""


class Spec(Content, Protocol):
    """An image to build: `images.spec.ImageSpec`, or `images.job.JobImageSpec`."""

    @property
    def estimate(self) -> str:
        """What its build costs, in words."""

    @property
    def archive(self) -> Path:
        """Where the built image lies."""

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Get everything that the build needs, with `work` as a place for it."""
