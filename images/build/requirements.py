"""The image of a script with packages of its own: those that its `requirements` list.

They are a layer over the trainer's image, put there by the pip that is in it. What is installed
already counts: a package that asks for torch gets the trainer's, and no other one beside it.
"""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from images.build.engines import Engine, Plan
from images.build.job import JobImageSpec
from images.build.runner import BuildFailed, Runner

DOCKERFILE = Path(__file__).with_suffix(".Dockerfile")
LISTED = "requirements.txt"
"""What the file is called in the build's own context."""
_ANOTHER_FILE = re.compile(
    r"-[rce]|--(?:requirement|constraint|editable)\b|\.{0,2}/|[^#]*@\s*file:|file:"
)
"""https://pip.pypa.io/en/stable/reference/requirements-file-format/"""
_REASON = re.compile(r"^ *ERROR: (.+)$", re.MULTILINE)
_HOW = (
    "Correct the file and run `make up` again. The trainer's torch and torchvision stay as they "
    "are, and the image has no compiler: for others, or for packages without a wheel, use a "
    "`build` or an `image` (docs/own-job.md#build)"
)


@dataclass(frozen=True)
class RequirementsSpec(JobImageSpec):
    """The trainer's image with the packages of a file, which counts with all of its text.

    The context is the file's folder, in which nothing else counts; the Dockerfile is Slipway's own.
    """

    requirements: str = LISTED
    """The file's name."""
    estimate = "as long as pip takes for its packages, and their size"

    @classmethod
    def from_file(cls, job: str, path: Path, trainer: str | None = None) -> "RequirementsSpec":
        """Return the image of that job with the packages that the file at `path` lists."""
        return cls(job, path.parent, str(DOCKERFILE), trainer, path.name)

    @property
    def path(self) -> Path:
        """The file that lists the packages."""
        return self.context / self.requirements

    @property
    def inputs(self) -> dict[str, Any]:
        return {**super().inputs, "requirements": str(self.path)}

    @cached_property
    def content_hash(self) -> str:
        """64 hexadecimal digits that change with the file and with how it is installed."""
        texts = (DOCKERFILE.read_bytes(), self.path.read_bytes())
        return hashlib.sha256(b"\0".join(texts)).hexdigest()

    @property
    def origin(self) -> str:
        return f"the trainer's image and the packages of {self.path}"

    def problems(self) -> dict[str, str]:
        """Return what is wrong with the file, by `requirements`; empty when nothing is."""
        try:
            numbered = enumerate(self.path.read_text().splitlines(), start=1)
            # Not the line itself: an address may hold a password.
            wrong = [number for number, line in numbered if _ANOTHER_FILE.match(line.strip())]
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            return {"requirements": f"{self.path} can't be read: {reason}; it lists packages"}
        if not wrong:
            return {}
        text = (
            f"line {wrong[0]} of {self.path} names another file, which the build does not have; "
            "list the packages themselves, or use `build`"
        )
        return {"requirements": text}

    def explained(self, failure: BuildFailed) -> BuildFailed:
        """Return it with pip's own reason, which is far down in the log, and with what to do."""
        reasons = _REASON.findall(str(failure))
        why = f": {reasons[-1]}" if reasons else ""
        text = f"the packages of {self.path} can't be installed{why}\n{_HOW}.\n{failure}"
        return BuildFailed(text)

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        """Put the file alone into the context."""
        plan = super().prepare(engine, runner, work)
        context = work / "requirements"
        context.mkdir()
        shutil.copyfile(self.path, context / LISTED)
        arguments = (*plan.arguments, f"CONTENT={self.content_hash}")
        return replace(plan, context=context, arguments=arguments)


def job_image(inputs: Mapping[str, Any]) -> JobImageSpec:
    """Return what the resource `slipway:images:JobImage` with these inputs is made of."""
    if "requirements" not in inputs:
        return JobImageSpec.from_inputs(inputs)
    path = Path(inputs["requirements"])
    return RequirementsSpec.from_file(inputs["name"], path, inputs.get("trainer"))
