"""The resource `slipway:images:Program`: a program of the toolchain, that a cluster has."""

import os
import tempfile
from pathlib import Path
from typing import ClassVar

from core.context import Context
from core.handler import Properties
from core.paths import cache_dir
from core.toolchain import Tool
from images.life import ImageLife
from images.programs import Program, write_archive
from images.targets.target import Target


class ProgramHandler(ImageLife[Program]):
    """Inputs: `name`, `path` and `version` of the tool; `entrypoint`, `contentHash`, `target`."""

    type: ClassVar[str] = "slipway:images:Program"

    def spec(self, inputs: Properties) -> Program:
        tool = Tool(inputs["name"], Path(inputs["path"]), inputs["version"], origin="")
        return Program(tool, inputs["entrypoint"])

    def built(self, spec: Program, context: Context) -> Path:
        """Write the archive, which takes a second: `bring_in` does not leave it there."""
        images = cache_dir() / "images"
        images.mkdir(parents=True, exist_ok=True)
        # Under a name of its own: another stack may be at the same.
        descriptor, name = tempfile.mkstemp(prefix=f"{spec.name}-", suffix=".tar", dir=images)
        with os.fdopen(descriptor, "wb") as file:
            write_archive(file, spec.reference, spec.tool.path, spec.entrypoint)
        return Path(name)

    def bring_in(self, spec: Program, archive: Path, target: Target, context: Context) -> None:
        try:
            super().bring_in(spec, archive, target, context)
        finally:
            archive.unlink()
