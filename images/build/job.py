"""The image of a job that brings its own Dockerfile."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from core import tokens
from core.context import Context
from images.build import pip
from images.build.engines import Engine, Plan, answer
from images.build.runner import Runner
from images.build.spec import DIGITS, BuildSpec, digest_of
from images.build.trainer import trainer_of

_TRAINER = re.compile(r"^\s*ARG\s+TRAINER\b", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class JobImageSpec(BuildSpec):
    """An image to build out of the user's own folder, by the job's name.

    All files of the folder count, those that a `.dockerignore` leaves out of the image as well,
    but for `.git` and `__pycache__`.
    """

    dockerfile: str
    """The Dockerfile's path in the folder."""
    trainer: str | None = None
    """What the trainer's image is called where it is built, or in a registry that has it, when the
    Dockerfile uses it."""
    prefix: ClassVar[str] = "slipway-job-"
    type: ClassVar[str] = tokens.JOB_IMAGE
    estimate = "as long as its Dockerfile takes, and its own size"

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "JobImageSpec":
        """Return what the resource with these inputs is made of."""
        context = Path(inputs["context"])
        return cls(inputs["name"], context, inputs["dockerfile"], inputs.get("trainer"))

    @property
    def inputs(self) -> dict[str, Any]:
        own = {"dockerfile": self.dockerfile, "trainer": self.trainer}
        content = "" if self.problems() else self.content_hash
        return {"name": self.name, "context": str(self.context), "contentHash": content, **own}

    @cached_property
    def content_hash(self) -> str:
        """64 hexadecimal digits that change with the context and the Dockerfile's name."""
        counted = f"{self.dockerfile}\0".encode() + digest_of(self.context)
        return hashlib.sha256(counted).hexdigest()

    @cached_property
    def wants_trainer(self) -> bool:
        """Whether the Dockerfile uses the trainer's image, with `ARG TRAINER`."""
        # Instructions are ASCII; a comment may be in any encoding.
        text = (self.context / self.dockerfile).read_text(errors="replace")
        return _TRAINER.search(text) is not None

    @property
    def origin(self) -> str:
        """A description of what it is built from, for a preview; raises when that can't be read."""
        return str(self.context / self.dockerfile)

    def problems(self) -> dict[str, str]:
        """Return the problem with `context` or `dockerfile` by that name; empty without any."""
        if not self.context.is_dir():
            return {"context": f"{self.context} is not a folder; it has to hold the job's files"}
        path = self.context / self.dockerfile
        if not path.resolve().is_relative_to(self.context.resolve()):
            return {"dockerfile": f"{self.dockerfile!r} lies outside of the context {self.context}"}
        if not path.is_file():
            return {"dockerfile": f"{path} is missing; give the Dockerfile's path in the context"}
        return {}

    @property
    def version(self) -> str:
        counted = f"{self.content_hash}\0{self.trainer}".encode()
        return hashlib.sha256(counted).hexdigest()[:DIGITS]

    def build(self, reporter: Context) -> Path:
        """Build the trainer's image before, where it is what this one starts from."""
        trainer = trainer_of(self.trainer)
        if trainer is not None:
            trainer.build(reporter)
            if trainer.reference != self.trainer:
                raise RuntimeError(f"{trainer.context} has changed during this run; run it again")
        return super().build(reporter)

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Let the engine have the trainer's image; other bases it pulls itself."""
        trainer, path = trainer_of(self.trainer), self.context / self.dockerfile
        if trainer is not None and not answer(*engine.digest(trainer.reference)):
            runner.run("taking in the trainer's image", engine.load(trainer.archive))
        arguments = () if self.trainer is None else (f"TRAINER={self.trainer}",)
        return Plan(self.context, path, arguments, pip.mounts(work))
