"""The container engine that runs a cluster's nodes: docker, nerdctl or podman."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from core.context import Context
from core.process import ANSWER_LIMIT, CommandFailed, run
from images.build.spec import Spec

PROGRAMS: tuple[str, ...] = ("docker", "nerdctl", "podman")
"""Container engines in kind's order: DetectNodeProvider in
https://github.com/kubernetes-sigs/kind/blob/v0.31.0/pkg/cluster/provider.go."""
CHOICE = "KIND_EXPERIMENTAL_PROVIDER"
"""The environment variable with which the user chooses kind's engine."""
INSTALL = "Install docker (https://docs.docker.com/engine/install/) or podman"
_START = "Start it (docker: `systemctl start docker`) and check that this user is allowed to use it"


@dataclass(frozen=True)
class Engine:
    """A container engine. `path` is the value of PATH for Slipway's own podman, or else None."""

    program: str
    path: str | None = None

    @property
    def is_ours(self) -> bool:
        return self.path is not None

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that make kind use this engine."""
        path = {} if self.path is None else {"PATH": self.path}
        return {CHOICE: self.program, **path}

    def problem(self) -> str | None:
        """Return why the engine can't be used and what to do about it, or None if it can."""
        if self.is_ours:
            return None
        if shutil.which(self.program) is None:
            return f"{self.program} is not on PATH. {INSTALL}"
        try:
            self.run("ps", limit=15.0)
        except CommandFailed as error:
            # All lines but the last are about the client.
            reason = str(error).strip().splitlines()[-1]
            return f"{self.program} does not work ({reason}). {_START}"
        return None

    def run(self, *arguments: str, limit: float = ANSWER_LIMIT) -> str:
        """Run the engine's program and return its output. Raises as `core.process.run`."""
        return run(self.program, *arguments, variables=self.variables, limit=limit)

    def provide(self, image: Spec, context: Context) -> str:
        """Build and load an image if it is missing, and return its reference."""
        if not self.run("images", "--quiet", image.reference).strip():
            archive = image.build(context)
            context.status(f"loading {image.reference} into {self.program}")
            self.run("load", "--input", str(archive), limit=300.0)
        return image.reference


def is_chosen() -> bool:
    """Return whether the user has chosen an engine in the variable `CHOICE`."""
    return os.environ.get(CHOICE) in PROGRAMS


def on_path() -> list[Engine]:
    """Return the engines on PATH in kind's order, or only the one that the user chose."""
    programs = [os.environ[CHOICE]] if is_chosen() else PROGRAMS
    return [Engine(each) for each in programs if shutil.which(each)]
