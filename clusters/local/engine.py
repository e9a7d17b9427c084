"""The container engine that holds a local cluster's nodes: docker, nerdctl or podman."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.process import ANSWER_LIMIT, CommandFailed, run

PROGRAMS: tuple[str, ...] = ("docker", "nerdctl", "podman")
"""In the order in which kind looks for them.

https://github.com/kubernetes-sigs/kind/blob/v0.31.0/pkg/cluster/provider.go (DetectNodeProvider)
"""
CHOICE = "KIND_EXPERIMENTAL_PROVIDER"
"""The variable by which the user chooses kind's engine."""
_OLDEST_DOCKER = (20, 10)
"""Since then it has `--cgroupns`, which kind gives its nodes.

https://github.com/kubernetes-sigs/kind/blob/v0.31.0/pkg/cluster/internal/providers/docker/provision.go
"""
_LOOK_LIMIT = 15.0
_START = "Start it (docker: `systemctl start docker`) and see that this user may use it"
_INSTALL = "Install docker (https://docs.docker.com/engine/install/) or podman"


@dataclass(frozen=True)
class Engine:
    """A container engine, through its own command line.

    Args:
        program: Its name, as found on PATH.
        path: The value of PATH with a podman of our own; None for one of this machine's.
    """

    program: str
    path: str | None = None

    @classmethod
    def on_path(cls) -> "Engine | None":
        """Return the first one that works, or else the first one; None when none exists."""
        chosen = os.environ.get(CHOICE)
        programs = PROGRAMS if chosen not in PROGRAMS else (chosen,)
        found = [cls(each) for each in programs if shutil.which(each)]
        return next((each for each in found if each.problem() is None), next(iter(found), None))

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment in which kind takes this one, too."""
        path = {} if self.path is None else {"PATH": self.path}
        return {CHOICE: self.program, **path}

    def problem(self) -> str | None:
        """Return why it can't be used, and what to do; None when it can."""
        if self.path is not None:
            return None
        if shutil.which(self.program) is None:
            return f"{self.program} is not on PATH. {_INSTALL}"
        is_docker = self.program == "docker"
        # The others have no server that reports a version.
        question = ("version", "--format", "{{.Server.Version}}") if is_docker else ("info",)
        try:
            answer = self.run(*question, limit=_LOOK_LIMIT)
        except CommandFailed as error:
            # The lines before the last are about the client.
            reason = str(error).strip().splitlines()[-1]
            return f"{self.program} does not work ({reason}). {_START}"
        numbers = tuple(int(each) for each in re.findall(r"\d+", answer)[:2])
        if is_docker and numbers < _OLDEST_DOCKER:
            return f"docker is version {answer.strip()}, needed is 20.10 or newer. Update it"
        return None

    def execute(self, container: str, *command: str, limit: float = ANSWER_LIMIT) -> str:
        """Run a program inside of a container and return what it prints. Raises `CommandFailed`."""
        return self.run("exec", container, *command, limit=limit)

    def states(self, containers: Sequence[str]) -> dict[str, str]:
        """Return the state of each container, such as `running`. Raises `CommandFailed`."""
        form = "{{.Name}} {{.State.Status}}"
        lines = self.run("inspect", "--format", form, *containers).splitlines()
        pairs = [line.split() for line in lines if line.strip()]
        return {name.removeprefix("/"): state for name, state in pairs}

    def start(self, containers: Sequence[str]) -> None:
        """Start containers that have been stopped. Raises `CommandFailed`."""
        self.run("start", *containers, limit=120)

    def run(self, *arguments: str, limit: float = ANSWER_LIMIT) -> str:
        """Run it and return what it prints; raises as `core.process.run`."""
        return run(self.program, *arguments, variables=self.variables, limit=limit)


def is_chosen() -> bool:
    """Whether the user has chosen an engine for kind."""
    return os.environ.get(CHOICE) in PROGRAMS


def lacking(engine: Engine | None) -> str | None:
    """Return what is wrong with a container engine, or that none exists; None when it works."""
    if engine is None:
        return f"there is no container engine ({', '.join(PROGRAMS)}) on PATH. {_INSTALL}"
    return engine.problem()
