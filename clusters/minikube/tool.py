"""minikube, bound to one of its profiles.

https://minikube.sigs.k8s.io/docs/commands/
"""

import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusters.local.engine import Engine
from clusters.local.nodes import reduced
from clusters.local.tool import Tool, find, missing
from clusters.minikube import command_line
from clusters.minikube.command_line import RUNTIME
from core.context import Context
from core.problem import Problem
from core.process import CommandFailed, run

CREATE_SECONDS = 1800.0
"""The nodes' image or disk, about 1.5 GB, may have to be fetched first."""
_ANSWER_SECONDS = 60.0
_DELETE_SECONDS = 180.0
_CONTAINERS = ("docker", "podman")
"""Drivers whose nodes are containers of an engine of the same name."""
_QUIET = {"MINIKUBE_WANTUPDATENOTIFICATION": "false"}
_PARTS = ("Host", "Kubelet", "APIServer")


@dataclass(frozen=True)
class MinikubeTool(Tool):
    """What minikube does with one profile.

    Args:
        name: The profile's.
        inputs: Of the resource, that it is made with.
    """

    name: str
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expected(self) -> int:
        return int(self.inputs.get("nodes", 1))

    def needs(self) -> list[str]:
        driver = self.inputs.get("driver")
        engine = Engine(driver).problem() if driver in _CONTAINERS else None
        return [each for each in (missing("minikube"), engine) if each]

    def exists(self) -> bool:
        return self._profile() is not None

    def refusal(self) -> str | None:
        config = (self._profile() or {}).get("Config") or {}
        runtime = (config.get("KubernetesConfig") or {}).get("ContainerRuntime")
        if runtime == RUNTIME:
            return None
        return (
            f"its container runtime is {runtime or 'not known'}; allowed is {RUNTIME}, which knows "
            f"an image by its digest. Make it with --container-runtime={RUNTIME}"
        )

    def create(self, context: Context) -> None:
        self._start(command_line.create_flags(self.inputs), context)

    def start(self, context: Context) -> None:
        if self.stopped():
            self._start(command_line.start_flags(self.inputs), context)

    def stopped(self) -> list[Problem]:
        return [
            Problem("nodes", f"{each.get('Name', self.name)}: {part} is {each[part]}")
            for each in self.statuses()
            for part in _PARTS
            if each.get(part) not in {"Running", "Irrelevant", None}
        ]

    def kubeconfig(self) -> str:
        with _aside() as own:
            self.run("update-context", variables=own)
            return reduced(Path(own["KUBECONFIG"]).read_text(), self.name)

    def delete(self) -> None:
        if self.exists():
            with _aside() as own:
                self.run("delete", limit=_DELETE_SECONDS, variables=own)

    def _start(self, flags: list[str], context: Context) -> None:
        lines: list[str] = []

        def show(line: str) -> None:
            lines.append(line)
            if (step := command_line.step(line)) is not None:
                context.status(step)

        with _aside() as own:
            try:
                self.run(
                    "start",
                    *flags,
                    variables=own,
                    limit=CREATE_SECONDS,
                    line=show,
                    cancelled=context.cancelled,
                )
            except CommandFailed as error:
                reason = command_line.failure(lines)
                if reason is None:
                    raise
                raise CommandFailed(f"minikube could not start {self.name}: {reason}") from error

    def _profile(self) -> Mapping[str, Any] | None:
        text = run(str(find("minikube")), "profile", "list", "--output=json", variables=_QUIET)
        listed = json.loads(text)
        every = [*(listed.get("valid") or []), *(listed.get("invalid") or [])]
        return next((each for each in every if each["Name"] == self.name), None)

    def statuses(self) -> list[Mapping[str, Any]]:
        """Return what minikube reports of each node; it exits non-zero when one doesn't run."""
        lines: list[str] = []
        with suppress(CommandFailed):
            self.run("status", "--output=json", line=lines.append)
        for text in lines:
            with suppress(ValueError):
                found = json.loads(text)
                return found if isinstance(found, list) else [found]
        raise CommandFailed(f"`minikube status` of {self.name} can't be read: {' '.join(lines)}")

    def run(
        self,
        *arguments: str,
        limit: float = _ANSWER_SECONDS,
        variables: Mapping[str, str] | None = None,
        line: Callable[[str], None] = lambda _text: None,
        cancelled: threading.Event | None = None,
    ) -> str:
        """Run minikube on the profile and return what it prints; raises as `core.process.run`."""
        return run(
            *(str(find("minikube")), f"--profile={self.name}", *arguments),
            variables={**_QUIET, **(variables or {})},
            limit=limit,
            line=line,
            cancelled=cancelled,
        )


@contextmanager
def _aside() -> Iterator[dict[str, str]]:
    """Yield what keeps minikube from the user's own kubeconfig: another file, which goes."""
    with tempfile.TemporaryDirectory(prefix="slipway-minikube-") as directory:
        yield {"KUBECONFIG": str(Path(directory, "kubeconfig"))}
