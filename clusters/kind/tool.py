"""kind, bound to one of its clusters."""

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
import yaml

from clusters.kind import podman
from clusters.local.engine import Engine, is_chosen, lacking
from clusters.local.nodes import reduced
from clusters.local.tool import Tool, find, missing
from core.context import Context
from core.problem import Problem
from core.process import CommandFailed, run
from images.build.kind_node import KindNode

CREATE_SECONDS = 1200.0
"""The nodes' image, about 1 GB, may have to be fetched first."""
_DELETE_SECONDS = 120.0
_LOAD_SECONDS = 300.0
_REGISTRY = "https://registry-1.docker.io/v2/"
"""Where kind's own images for nodes come from. It answers 401 to whoever has not logged in."""
_REGISTRY_SECONDS = 5.0


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
        return [each for each in (missing("kind"), lacking(engine())) if each]

    def exists(self) -> bool:
        return self.name in self.run("get", "clusters").split()

    def create(self, context: Context) -> None:
        if podman.is_ours(self.engine):
            podman.prepare()
        config = dict(self.config)
        if KindNode.is_provided() and any("image" not in node for node in config["nodes"]):
            image = self._node_image(context)
            config["nodes"] = [{"image": image, **node} for node in config["nodes"]]
        with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
            file = Path(directory, "kind.yaml")
            file.write_text(yaml.safe_dump(config, sort_keys=False))
            # Without it kind would write into the user's own kubeconfig.
            aside = ("--kubeconfig", str(Path(directory, "kubeconfig")))
            run(
                *(str(find("kind")), "create", "cluster", "--name", self.name),
                *("--config", str(file), *aside),
                variables=self.engine.variables,
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
            try:
                self.run(*command, limit=_DELETE_SECONDS)
            except CommandFailed:
                # podman 4 fails on a container that ends while it is being killed.
                self.run(*command, limit=_DELETE_SECONDS)
        if podman.is_ours(self.engine):
            podman.restore()

    @property
    def engine(self) -> Engine:
        """What holds the nodes.

        Raises:
            RuntimeError: it does not exist; with what to do.
        """
        found = engine()
        if found is None:
            raise RuntimeError(lacking(None))
        return found

    def _node_image(self, context: Context) -> str:
        """Return what the engine calls the image of our own for nodes, after loading it."""
        image = KindNode.of({})
        if not self.engine.run("images", "--quiet", image.reference).strip():
            archive = image.build(context)
            context.status(f"loading {image.reference} into {self.engine.program}")
            self.engine.run("load", "--input", str(archive), limit=_LOAD_SECONDS)
        return image.reference

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
        kind, variables = str(find("kind")), self.engine.variables
        return run(kind, *arguments, variables=variables, limit=limit, cancelled=cancelled)


def engine() -> Engine | None:
    """Return what holds the nodes: an engine on PATH that works, or else a podman of our own.

    Where the user has chosen one, none takes its place.
    """
    found = Engine.on_path()
    has_one = found is not None and found.problem() is None
    return podman.engine() if podman.is_provided() and not (has_one or is_chosen()) else found


def more_tools() -> tuple[str, ...]:
    """Return what set-up has to provide besides kind.

    That is a podman where no engine works, and what nodes are built from where kind's own image
    for them can't be pulled. What set-up has provided once stays in use. Where an engine that the
    user has chosen does not work, it has to be started first.
    """
    on_path = Engine.on_path()
    has_engine = on_path is not None and on_path.problem() is None
    if not has_engine and is_chosen():
        return ()
    tools = () if has_engine else podman.TOOLS
    if not KindNode.is_provided() and _is_reachable():
        return tools
    return (*tools, *KindNode.TOOLS)


def _is_reachable() -> bool:
    """Whether the registry of kind's images answers."""
    try:
        urllib3.request("GET", _REGISTRY, timeout=_REGISTRY_SECONDS, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return True
