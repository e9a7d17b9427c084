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

from clusters.local import kubeconfig, minikube_words, tools
from clusters.local.engine import Engine
from clusters.local.minikube_words import RUNTIME
from clusters.local.nodes import Problem
from core.context import Context
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
class MinikubeTool:
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
        return [each for each in (tools.missing("minikube"), engine) if each]

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
        self._start(minikube_words.create_flags(self.inputs), context)

    def start(self, context: Context) -> None:
        if self.stopped():
            self._start(minikube_words.start_flags(self.inputs), context)

    def stopped(self) -> list[Problem]:
        return [
            Problem("nodes", f"{each.get('Name', self.name)}: {part} is {each[part]}")
            for each in self._statuses()
            for part in _PARTS
            if each.get(part) not in {"Running", "Irrelevant", None}
        ]

    def kubeconfig(self) -> str:
        with _aside() as own:
            self._minikube("update-context", variables=own)
            return kubeconfig.alone(Path(own["KUBECONFIG"]).read_text(), self.name)

    def delete(self) -> None:
        if self.exists():
            with _aside() as own:
                self._minikube("delete", limit=_DELETE_SECONDS, variables=own)

    def load(self, archive: Path, cancelled: threading.Event) -> None:
        """Bring an image into every node.

        Raises:
            CommandFailed: minikube can't.
            InterruptedError: the person pressed Ctrl-C.
        """
        command = (self._program(), f"--profile={self.name}", "image", "load", str(archive))
        run(*command, variables=_QUIET, limit=CREATE_SECONDS, cancelled=cancelled)

    def nodes(self) -> list[str]:
        """Return the nodes' names, as `execute` takes them."""
        return [str(each["Name"]) for each in self._statuses()]

    def execute(self, node: str, *command: str, limit: float = _ANSWER_SECONDS) -> str:
        """Run a program as root on a node and return what it prints. Raises `CommandFailed`."""
        return self._minikube("ssh", f"--node={node}", "--", "sudo", *command, limit=limit)

    def _start(self, flags: list[str], context: Context) -> None:
        said: list[str] = []

        def heard(line: str) -> None:
            said.append(line)
            if (step := minikube_words.step(line)) is not None:
                context.status(step)

        with _aside() as own:
            try:
                run(
                    *(self._program(), f"--profile={self.name}", "start", *flags),
                    variables={**_QUIET, **own},
                    limit=CREATE_SECONDS,
                    line=heard,
                    cancelled=context.cancelled,
                )
            except CommandFailed as error:
                reason = minikube_words.failure(said)
                if reason is None:
                    raise
                raise CommandFailed(f"minikube could not start {self.name}: {reason}") from error

    def _profile(self) -> Mapping[str, Any] | None:
        text = run(self._program(), "profile", "list", "--output=json", variables=_QUIET)
        listed = json.loads(text)
        every = [*(listed.get("valid") or []), *(listed.get("invalid") or [])]
        return next((each for each in every if each["Name"] == self.name), None)

    def _statuses(self) -> list[Mapping[str, Any]]:
        """Return what minikube says of each node; it exits non-zero when one doesn't run."""
        said: list[str] = []
        with suppress(CommandFailed):
            self._minikube("status", "--output=json", line=said.append)
        for text in said:
            with suppress(ValueError):
                found = json.loads(text)
                return found if isinstance(found, list) else [found]
        raise CommandFailed(f"`minikube status` of {self.name} can't be read: {' '.join(said)}")

    def _minikube(
        self,
        *arguments: str,
        limit: float = _ANSWER_SECONDS,
        variables: Mapping[str, str] | None = None,
        line: Callable[[str], None] = lambda _text: None,
    ) -> str:
        command = (self._program(), f"--profile={self.name}", *arguments)
        return run(*command, variables={**_QUIET, **(variables or {})}, limit=limit, line=line)

    def _program(self) -> str:
        return str(tools.find("minikube"))


@contextmanager
def _aside() -> Iterator[dict[str, str]]:
    """Yield what keeps minikube from the person's own kubeconfig: another file, which goes."""
    with tempfile.TemporaryDirectory(prefix="slipway-minikube-") as directory:
        yield {"KUBECONFIG": str(Path(directory, "kubeconfig"))}
