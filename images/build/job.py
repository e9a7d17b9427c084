"""The image for a job: from its own Dockerfile, or with the packages that a script requires.

Packages are installed by the trainer image's pip, as a layer on top of that image. Packages that it
already contains satisfy requirements: a package that requires torch uses the trainer's torch.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from packaging.requirements import InvalidRequirement, Requirement

from core import tokens
from core.context import Context
from images.build import debian, pip
from images.build.engines import Engine, Plan, answer
from images.build.releases import RELEASES
from images.build.runner import BuildFailed, Runner, logins
from images.build.spec import DIGITS, BuildSpec, digest_of, files_of
from images.build.trainer import TRAINER, ImageSpec, trainer_of

_KEEPS_PROXY = re.compile(r"^\s*(ARG|ENV)\s.*_proxy\b", re.IGNORECASE | re.MULTILINE)
DOCKERFILE = Path(__file__).with_name("requirements.Dockerfile")
LISTED = "requirements.txt"
"""The name of the requirements file in the build context."""
_ANOTHER_FILE = re.compile(
    r"-[rce]|--(?:requirement|constraint|editable)"
    r"|(?:-f|--find-links)(?![\s=]*(?:\$|(?!file:)\w+:))"
    r"|(?:[\w.\-\[\], ]+@)?\s*(?:file:|[.~]|[^\s:;#$]*(?:/|\.(?:whl|zip|t(?:ar|gz|bz|xz|lz))\b))"
)
"""Matches lines that refer to another file, by an option or in place of a URL:
https://pip.pypa.io/en/stable/reference/requirements-file-format/"""


@dataclass(frozen=True)
class JobImageSpec(BuildSpec):
    """An image to build from the user's folder, named after the job.

    All files in the folder affect its version, even those that `.dockerignore` excludes. Only
    `.git` and `__pycache__` do not.
    """

    dockerfile: str
    """The Dockerfile's path in the folder."""
    trainer: str | None = None
    """The trainer image's reference, local or in a registry, or None if it is not the base."""
    prefix: ClassVar[str] = "slipway-job-"
    type: ClassVar[str] = tokens.JOB_IMAGE
    estimate = "takes as long as its Dockerfile needs, and as much disk space as the image"

    @staticmethod
    def from_inputs(inputs: Mapping[str, Any]) -> "JobImageSpec":
        name, trainer = inputs["name"], inputs.get("trainer")
        if "requirements" in inputs:
            base = inputs.get("base", TRAINER.name)  # missing in older states
            return RequirementsSpec.from_file(Path(inputs["requirements"]), base, trainer)
        return JobImageSpec(name, Path(inputs["context"]), inputs["dockerfile"], trainer)

    @property
    def inputs(self) -> dict[str, Any]:
        own = {"dockerfile": self.dockerfile, "trainer": self.trainer}
        content = "" if self.problems() else self.content_hash
        return {"name": self.name, "context": str(self.context), "contentHash": content, **own}

    @cached_property
    def content_hash(self) -> str:
        """Hash of the context and the Dockerfile's name, as 64 hexadecimal digits."""
        digest = hashlib.sha256(f"{self.dockerfile}\0".encode() + digest_of(self.context))
        for path in files_of(self.context):
            if not path.lstat().st_mode & 0o004:  # the job runs as another user, who can't read it
                digest.update(os.fsencode(path.relative_to(self.context)))
        return digest.hexdigest()

    @cached_property
    def wants_trainer(self) -> bool:
        """True if the Dockerfile uses the trainer's image, through `ARG TRAINER`."""
        # Instructions are ASCII; a comment may be in any encoding.
        text = (self.context / self.dockerfile).read_text(errors="replace")
        return re.search(r"(?im)^\s*ARG\s+TRAINER\b", text) is not None

    @property
    def origin(self) -> str:
        """The source that the image is built from, as previews show it."""
        return str(self.context / self.dockerfile)

    def problems(self) -> dict[str, str]:
        """Return a problem keyed by `context` or `dockerfile`; empty if both are valid."""
        if not self.context.is_dir():
            return {"context": f"{self.context} is not a folder; it must contain the job's files"}
        path = self.context / self.dockerfile
        if not path.resolve().is_relative_to(self.context.resolve()):
            return {
                "dockerfile": f"{self.dockerfile!r} is outside the context {self.context}; move it "
                "there, or set a `context` that contains it"
            }
        if not path.is_file():
            return {"dockerfile": f"{path} is missing; set its path relative to the context"}
        if _KEEPS_PROXY.search(path.read_text(errors="replace")) and logins(debian.proxies()):
            return {
                "dockerfile": f"{path} declares a proxy variable (ARG, ENV), so the image would "
                "contain this shell's proxy password; remove the declaration: build steps get the "
                "variable anyway"
            }
        return {}

    @property
    def version(self) -> str:
        return hashlib.sha256(f"{self.content_hash}\0{self.trainer}".encode()).hexdigest()[:DIGITS]

    @cached_property
    def _start(self) -> ImageSpec | None:
        """The trainer image that this image is based on, or None if it has another base."""
        return trainer_of(self.trainer)

    @property
    def archives(self) -> tuple[str, ...]:
        """This image's archives and, if it is based on a trainer image, that image's archives."""
        return (*super().archives, *(() if self._start is None else self._start.archives))

    def settle(self, reporter: Context) -> None:
        if self._start is not None:
            self._start.settle(reporter)

    def build(self, reporter: Context) -> Path:
        """Build the image, and before it the trainer image that it is based on, if any."""
        if (trainer := self._start) is not None:
            trainer.build(reporter)
            if trainer.reference != self.trainer:
                raise RuntimeError(
                    f"{trainer.context} changed during this run; run the same command again"
                )
        return super().build(reporter)

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Load the trainer image into the engine if it is the base; other bases are pulled."""
        trainer, path = self._start, self.context / self.dockerfile
        if trainer is not None and not answer(*engine.digest(trainer.reference)):
            runner.run("loading the trainer's image", engine.load(trainer.archive))
        arguments = () if self.trainer is None else (f"TRAINER={self.trainer}",)
        return Plan(self.context, path, arguments, pip.mounts(work))


@dataclass(frozen=True)
class RequirementsSpec(JobImageSpec):
    """A trainer image with the packages that a requirements file lists.

    Jobs with the same file share the image, so its name does not contain a job's name. `context`
    is the file's folder, but only this file affects the image. The Dockerfile is Slipway's own.
    """

    requirements: str = LISTED
    """The requirements file's name."""
    base: str = TRAINER.name
    """The name of the trainer image that this image is based on."""
    estimate = "takes as long as pip needs, and as much disk space as the packages"

    @classmethod
    def from_file(
        cls, path: Path, base: str = TRAINER.name, trainer: str | None = None
    ) -> "RequirementsSpec":
        """Return the specification for the packages that the file at `path` lists."""
        digits = hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()[:DIGITS]
        name = f"packages-{digits}-{base.removeprefix('slipway-')}"
        return cls(name, path.parent, str(DOCKERFILE), trainer, path.name, base)

    @property
    def repository(self) -> str:
        return "slipway-packages"

    @property
    def path(self) -> Path:
        """The file that lists the packages."""
        return self.context / self.requirements

    @property
    def inputs(self) -> dict[str, Any]:
        return {**super().inputs, "requirements": str(self.path), "base": self.base}

    @cached_property
    def content_hash(self) -> str:
        """Hash of the requirements file and the Dockerfile, as 64 hexadecimal digits."""
        texts = (DOCKERFILE.read_bytes(), self.path.read_bytes())
        return hashlib.sha256(b"\0".join(texts)).hexdigest()

    @property
    def origin(self) -> str:
        return f"the trainer's image and the packages in {self.path}"

    def problems(self) -> dict[str, str]:
        """Return the file's problems, keyed by `requirements`, or an empty map if it is valid."""
        try:
            lines = self.path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            return {"requirements": f"{self.path} can't be read: {reason}; it must list packages"}
        checks = ((number, self._wrong(line.strip())) for number, line in enumerate(lines, start=1))
        wrong = [f"line {number} of {self.path} {why}" for number, why in checks if why]
        return {"requirements": ". ".join(wrong)} if wrong else {}

    def _wrong(self, line: str) -> str | None:
        """Return the problem with a line in the requirements file, or None if the line is valid.

        The result does not quote the line, since a URL in it may contain a password.
        """
        if _ANOTHER_FILE.match(line):
            return "refers to another file, which the build lacks; list packages, or use `build`"
        base = trainer_of(f"localhost/{self.base}")
        with suppress(InvalidRequirement):
            required = Requirement(re.split(r"\s(?:#|--)|\\", line)[0].strip())
            name = required.name.lower()
            if base is None or base.torch is None or name not in base.versions:
                return None
            fit = [
                torch
                for torch in RELEASES
                if (has := replace(base, torch=torch).versions.get(name))
                and required.specifier.contains(has, prereleases=True)
            ]
            python = {"python_version": RELEASES[base.torch].python}
            if base.torch in fit or (required.marker and not required.marker.evaluate(python)):
                return None
            how = f'set the job\'s `torch: "{fit[0]}"`, or remove' if fit else "remove"
            return (
                f"requires {required}, but the image has {name} {base.versions[name]}: {how} this "
                "line"
            )
        return None

    def explained(self, failure: BuildFailed, log: Path) -> BuildFailed:
        """Return the failure with the reason that pip gave in the log, and with advice."""
        why = pip.reason(log.read_text(errors="replace"))
        reason = "" if why is None else f": {why}"
        return BuildFailed(
            f"the packages in {self.path} can't be installed{reason}\nCorrect the file and run "
            "`make up` again. The image's torch and torchvision can't be replaced: for other "
            f"versions, set the job's `torch` (docs/install.md#versions-of-torch).\n{failure}"
        )

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Prepare a build whose context contains only the requirements file."""
        plan = super().prepare(engine, runner, work)
        context = work / "requirements"
        context.mkdir()
        shutil.copyfile(self.path, context / LISTED)
        arguments = (*plan.arguments, f"CONTENT={self.content_hash}")
        return replace(plan, context=context, arguments=arguments)
