"""Manage one cluster with kind; also contains the handler for the cluster's resource."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from clusters.cli_clusters import podman
from clusters.cli_clusters.cli_cluster import NodeImages, ToolHandler
from clusters.cli_clusters.engine import INSTALL, PROGRAMS, Engine, is_chosen, on_path
from clusters.cli_clusters.tool import Tool, reduced
from core import files
from core.context import Context
from core.problem import Problem, raised
from core.process import CommandFailed
from core.toolchain import ToolMissing
from images.build import engines
from images.build.kind_node import KindNode

_NO_ENGINE = f"there is no container engine ({', '.join(PROGRAMS)}) on PATH. {INSTALL}"
_CREATE_SECONDS = 1200.0
"""Timeout in seconds; the nodes' image, about 1 GB, may have to be pulled first."""
_DELETE_SECONDS = 120.0
_OWN_PODMAN = "own-podman"
_MARK = "/etc/slipway-"
"""The path of the mount that marks a node, without the creation token at its end."""


class KindTool(Tool):
    """The program `kind`, for one cluster; the input `config` is kind's configuration."""

    program: ClassVar[str] = "kind"
    removal: ClassVar[str] = "kind delete cluster --name"

    @property
    def expected(self) -> int:
        return len(self.inputs.get("config", {}).get("nodes", [None]))

    @property
    def variables(self) -> Mapping[str, str]:
        return self._engine.variables

    def engine_problem(self) -> str | None:
        problem = raised(lambda: self._engine, RuntimeError, ToolMissing) or self._engine.problem()
        if problem is None or not self._record.exists():
            return problem
        return f"{problem}; or, if its node containers no longer exist, run: rm {self._record}"

    def exists(self) -> bool:
        return self.name in self.run("get", "clusters").split()

    def create(self, token: str, context: Context) -> None:
        self._record.unlink(missing_ok=True)
        chosen = self._engine
        files.write(self._record, _OWN_PODMAN if chosen.is_ours else chosen.program, mode=0o600)
        if chosen.is_ours:
            podman.prepare()
        config = dict(self.inputs["config"])
        # Of all settings in kind, only a mount exists as soon as the node's container does.
        mark = {"hostPath": "/dev/null", "containerPath": _MARK + token, "readOnly": True}
        config["nodes"] = [
            {**node, "extraMounts": [*node.get("extraMounts", ()), mark]}
            for node in config["nodes"]
        ]
        if KindNode.is_provided() and any("image" not in node for node in config["nodes"]):
            image = self._engine.provide(KindNode(), context)
            config["nodes"] = [{"image": image, **node} for node in config["nodes"]]
        self.run(
            *("create", "cluster", "--name", self.name, "--config", "-"),
            text=yaml.safe_dump(config, sort_keys=False),
            limit=_CREATE_SECONDS,
            context=context,
        )

    def carries(self, token: str) -> bool:
        form = "{{range .Mounts}}{{.Destination}} {{end}}"
        nodes = self.nodes()
        lines = self._engine.run("inspect", "--format", form, *nodes).splitlines() if nodes else []
        return bool(lines) and all(_MARK + token in line.split() for line in lines)

    def start(self, context: Context) -> None:
        if names := list(self._not_running()):
            if self._engine.is_ours:
                podman.prepare()
            context.status(f"starting {', '.join(names)}")
            self._engine.run("start", *names, limit=120.0)

    def stopped(self) -> list[Problem]:
        return [Problem("nodes", f"{name} is {at}") for name, at in self._not_running().items()]

    def kubeconfig(self) -> str:
        return reduced(self.run("get", "kubeconfig", "--name", self.name), f"kind-{self.name}")

    def delete(self) -> None:
        command = ("delete", "cluster", "--name", self.name)
        try:
            self.run(*command, limit=_DELETE_SECONDS)
        except CommandFailed:
            # podman 4 fails if a container exits while it is being killed.
            self.run(*command, limit=_DELETE_SECONDS)
        podman.restore()

    def load(self, archive: Path, context: Context) -> None:
        command = ("load", "image-archive", str(archive), "--name", self.name)
        self.run(*command, limit=_CREATE_SECONDS, context=context)

    def nodes(self) -> list[str]:
        # The load balancer for several control planes is not a node.
        return [each for each in self._containers() if not each.endswith("-external-load-balancer")]

    def execute(self, node: str, *command: str, limit: float) -> str:
        return self._engine.run("exec", node, *command, limit=limit)

    @property
    def _engine(self) -> Engine:
        """The nodes' container engine; raises `RuntimeError` with a remedy if there is none."""
        if self._record.exists():
            program = self._record.read_text()
            return podman.engine() if program == _OWN_PODMAN else Engine(program)
        chosen = podman.choose(on_path(), own=not is_chosen())
        if chosen is None:
            raise RuntimeError(_NO_ENGINE)
        return chosen

    @property
    def _record(self) -> Path:
        """The file with the engine that the nodes were created with; no other one finds them."""
        return self.directory / "engine"

    def _containers(self) -> list[str]:
        """Return the cluster's containers: the nodes, and a load balancer if there is one."""
        return self.run("get", "nodes", "--name", self.name).split()

    def _not_running(self) -> Mapping[str, str]:
        """Return the state, such as `exited`, of each container that is not running."""
        form = "{{.Name}} {{.State.Status}}"
        lines = self._engine.run("inspect", "--format", form, *self._containers()).splitlines()
        states = (line.removeprefix("/").split() for line in lines if line.strip())
        return {name: state for name, state in states if state != "running"}


class KindHandler(ToolHandler):
    """The handler for the resource `slipway:clusters:Kind`, a kind cluster."""

    tool = KindTool


def images(cluster: str) -> NodeImages:
    """Return the image target for the nodes of the kind cluster with this name."""
    return NodeImages(KindTool({"name": cluster}))


def more_tools(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tools that setup must provide besides kind, for the nodes and for images."""
    has_engine = any(each.problem() is None for each in on_path())
    if not has_engine and is_chosen():  # the user has to start it first
        return ()
    tools = () if has_engine and not podman.storage().exists() else podman.TOOLS
    nodes = KindNode.needed(cluster, KindTool(cluster).directory)
    return (*tools, *engines.needed(cluster), *nodes)
