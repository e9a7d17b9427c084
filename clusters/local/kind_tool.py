"""kind, bound to one of its clusters."""

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from clusters.local import kubeconfig, tools
from clusters.local.engine import Engine, lacking
from clusters.local.nodes import Problem
from core.context import Context
from core.process import run

CREATE_SECONDS = 1200.0
"""The nodes' image, about 1 GB, may have to be fetched first."""
_DELETE_SECONDS = 120.0
_BALANCER = "-external-load-balancer"
"""How the container's name ends that stands before several control planes; it is no node."""


@dataclass(frozen=True)
class KindTool:
    """What kind does with one cluster.

    Args:
        name: The cluster's.
        config: kind's configuration, that it is made with.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expected(self) -> int:
        return len(self.config.get("nodes", [None]))

    def needs(self) -> list[str]:
        return [each for each in (tools.missing("kind"), lacking(Engine.found())) if each]

    def exists(self) -> bool:
        return self.name in self._kind("get", "clusters").split()

    def refusal(self) -> str | None:
        return None

    def create(self, context: Context) -> None:
        with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
            file = Path(directory, "kind.yaml")
            file.write_text(yaml.safe_dump(dict(self.config), sort_keys=False))
            # Without it kind would write into the person's own kubeconfig.
            aside = ("--kubeconfig", str(Path(directory, "kubeconfig")))
            run(
                *(str(tools.find("kind")), "create", "cluster", "--name", self.name),
                *("--config", str(file), *aside),
                limit=CREATE_SECONDS,
                line=lambda text: context.status(text.strip() or "kind is at work"),
                cancelled=context.cancelled,
            )

    def start(self, context: Context) -> None:
        names = [each.part for each in self._not_running()]
        if names:
            context.status(f"starts {', '.join(names)}")
            self.engine.start(names)

    def stopped(self) -> list[Problem]:
        return [Problem("nodes", f"{each.part} {each.reason}") for each in self._not_running()]

    def kubeconfig(self) -> str:
        text = self._kind("get", "kubeconfig", "--name", self.name)
        return kubeconfig.alone(text, f"kind-{self.name}")

    def delete(self) -> None:
        with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
            aside = ("--kubeconfig", str(Path(directory, "kubeconfig")))
            command = ("delete", "cluster", "--name", self.name, *aside)
            self._kind(*command, limit=_DELETE_SECONDS)

    def load(self, archive: Path, cancelled: threading.Event) -> None:
        """Bring an image into every node.

        Raises:
            CommandFailed: kind can't.
            InterruptedError: the person pressed Ctrl-C.
        """
        command = ("load", "image-archive", str(archive), "--name", self.name)
        self._kind(*command, limit=CREATE_SECONDS, cancelled=cancelled)

    def nodes(self) -> list[str]:
        """Return the containers that are nodes."""
        return [each for each in self._containers() if not each.endswith(_BALANCER)]

    def execute(self, node: str, *command: str, limit: float) -> str:
        """Run a program as root on a node and return what it prints. Raises `CommandFailed`."""
        return self.engine.execute(node, *command, limit=limit)

    @property
    def engine(self) -> Engine:
        """What holds the nodes.

        Raises:
            RuntimeError: there is none; with what to do.
        """
        engine = Engine.found()
        if engine is None:
            raise RuntimeError(lacking(None))
        return engine

    def _not_running(self) -> list[Problem]:
        """Return the containers, as `part`, that do not run."""
        states = self.engine.states(self._containers())
        return [
            Problem(name, f"is {state}") for name, state in states.items() if state != "running"
        ]

    def _containers(self) -> list[str]:
        return self._kind("get", "nodes", "--name", self.name).split()

    def _kind(
        self, *arguments: str, limit: float = 60, cancelled: threading.Event | None = None
    ) -> str:
        return run(str(tools.find("kind")), *arguments, limit=limit, cancelled=cancelled)
