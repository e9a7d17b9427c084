"""kind, bound to one of its clusters."""

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from clusters.local.engine import Engine, lacking
from clusters.local.nodes import reduced
from clusters.local.tool import Tool, find, missing
from core.context import Context
from core.problem import Problem
from core.process import run

CREATE_SECONDS = 1200.0
"""The nodes' image, about 1 GB, may have to be fetched first."""
_DELETE_SECONDS = 120.0


@dataclass(frozen=True)
class KindTool(Tool):
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
        return [each for each in (missing("kind"), lacking(Engine.found())) if each]

    def exists(self) -> bool:
        return self.name in self.run("get", "clusters").split()

    def create(self, context: Context) -> None:
        with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
            file = Path(directory, "kind.yaml")
            file.write_text(yaml.safe_dump(dict(self.config), sort_keys=False))
            # Without it kind would write into the user's own kubeconfig.
            aside = ("--kubeconfig", str(Path(directory, "kubeconfig")))
            run(
                *(str(find("kind")), "create", "cluster", "--name", self.name),
                *("--config", str(file), *aside),
                limit=CREATE_SECONDS,
                line=lambda text: context.status(text.strip() or "kind is at work"),
                cancelled=context.cancelled,
            )

    def start(self, context: Context) -> None:
        names = [each.key for each in self._not_running()]
        if names:
            context.status(f"starts {', '.join(names)}")
            self.engine.start(names)

    def stopped(self) -> list[Problem]:
        return [Problem("nodes", f"{each.key} {each.text}") for each in self._not_running()]

    def kubeconfig(self) -> str:
        text = self.run("get", "kubeconfig", "--name", self.name)
        return reduced(text, f"kind-{self.name}")

    def delete(self) -> None:
        with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
            aside = ("--kubeconfig", str(Path(directory, "kubeconfig")))
            command = ("delete", "cluster", "--name", self.name, *aside)
            self.run(*command, limit=_DELETE_SECONDS)

    @property
    def engine(self) -> Engine:
        """What holds the nodes.

        Raises:
            RuntimeError: it does not exist; with what to do.
        """
        engine = Engine.found()
        if engine is None:
            raise RuntimeError(lacking(None))
        return engine

    def _not_running(self) -> list[Problem]:
        """Return the containers, as `key`, that do not run."""
        states = self.engine.states(self.containers())
        return [
            Problem(name, f"is {state}") for name, state in states.items() if state != "running"
        ]

    def containers(self) -> list[str]:
        """Return the containers of the cluster: its nodes, and what stands before them."""
        return self.run("get", "nodes", "--name", self.name).split()

    def run(
        self, *arguments: str, limit: float = 60, cancelled: threading.Event | None = None
    ) -> str:
        """Run kind and return what it prints; raises as `core.process.run`."""
        return run(str(find("kind")), *arguments, limit=limit, cancelled=cancelled)
