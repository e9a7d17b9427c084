"""The interface to kind and minikube: a command-line tool that creates and deletes a cluster."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import yaml
from kubernetes import config

from clusters import owner
from clusters.cluster import JOBS
from clusters.operator import CRD_PATH, NAMESPACE
from core import kube, toolchain
from core.context import Context
from core.manifests import made_by, unready
from core.paths import state_dir
from core.problem import Problem, raised
from core.process import CommandFailed, run

_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Tool(ABC):
    """A command-line tool for one cluster; `inputs` are the cluster resource's, or only `name`."""

    inputs: Mapping[str, Any]

    program: ClassVar[str]
    removal: ClassVar[str]
    """The command that deletes a cluster, without the cluster's name."""

    @property
    def name(self) -> str:
        return str(self.inputs["name"])

    @property
    def directory(self) -> Path:
        """The directory for the owner file and the token, created before the cluster is."""
        return state_dir() / "local-clusters" / self.program / self.name

    @property
    @abstractmethod
    def expected(self) -> int:
        """The number of nodes that the cluster's configuration specifies."""

    @property
    @abstractmethod
    def variables(self) -> Mapping[str, str]:
        """The environment variables that the tool runs with, in addition to this process's."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """The arguments at the beginning of each of the tool's commands."""
        return ()

    @abstractmethod
    def engine_problem(self) -> str | None:
        """Return why the nodes' container engine can't be used, or None if it can."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether a cluster with this name exists, even if it does not work."""

    def refusal(self) -> str | None:
        """Return why the existing cluster can't be adopted, or None if it can."""
        return None

    @abstractmethod
    def create(self, token: str, context: Context) -> None:
        """Create the cluster, marked with `token` from the start; see `carries`."""

    @abstractmethod
    def carries(self, token: str) -> bool:
        """Return whether the existing cluster, even if incomplete, was created with `token`."""

    def is_ours(self) -> bool | None:
        """Return whether the cluster has the recorded token, or None if none is recorded."""
        token = owner.token_of(self.directory)
        return None if token is None else self.carries(token)

    @abstractmethod
    def start(self, context: Context) -> None:
        """Start the stopped parts of the cluster."""

    @abstractmethod
    def stopped(self) -> list[Problem]:
        """Return the stopped parts of the cluster."""

    @abstractmethod
    def kubeconfig(self) -> str:
        """Return the kubeconfig in a stable form, which changes only if its content does."""

    @abstractmethod
    def delete(self) -> None:
        """Delete the cluster, if it exists."""

    @abstractmethod
    def load(self, archive: Path, context: Context) -> None:
        """Load an archive's images onto all nodes. Raises the same errors as `core.process.run`."""

    @abstractmethod
    def nodes(self) -> list[str]:
        """Return the nodes' names."""

    @abstractmethod
    def execute(self, node: str, *command: str, limit: float) -> str:
        """Run a program as root on a node and return its output. Raises `CommandFailed`."""

    def run(
        self,
        *arguments: str,
        text: str = "",
        limit: float = _ANSWER_SECONDS,
        line: Callable[[str], None] = lambda _text: None,
        context: Context | None = None,
        kubeconfig: Path | None = None,
    ) -> str:
        """Run the tool with a kubeconfig that is not the user's, and return the tool's output.

        If `context` is set, it shows each line of output, and cancelling it stops the tool.
        """
        with tempfile.TemporaryDirectory(prefix="slipway-") as directory:
            aside = Path(directory, "kubeconfig") if kubeconfig is None else kubeconfig
            return run(
                *(str(toolchain.path(self.program)), *self.prefix, *arguments),
                text=text,
                variables={**self.variables, "KUBECONFIG": str(aside)},
                limit=limit,
                line=line if context is None else partial(_show, context),
                cancelled=None if context is None else context.cancelled,
            )

    def needs(self) -> list[str]:
        """Return what is missing on this machine for the tool to run, each with a remedy."""
        missing = raised(partial(toolchain.path, self.program), toolchain.ToolMissing)
        return [each for each in (missing, self.engine_problem()) if each is not None]

    def problems(self, *, adopted: bool) -> list[Problem]:
        """Return problems with the tools, or else with the cluster, its parts or its nodes."""
        if needs := self.needs():
            return [Problem("tools", need) for need in needs]
        try:
            if not self.exists():
                return [Problem("cluster", f"{self.name} no longer exists")]
            expected = 1 if adopted else self.expected  # an adopted cluster may have any number
            return self.stopped() or _of_nodes(self.kubeconfig(), expected)
        except (CommandFailed, ValueError, OSError) as error:
            return [Problem("cluster", str(error))]


def _show(context: Context, line: str) -> None:
    if text := line.strip():
        context.status(text)


def identity(kubeconfig: str) -> str:
    """Return a cluster's ID: the UID of its namespace kube-system."""
    return str(_get(kubeconfig, "/api/v1/namespaces/kube-system")["metadata"]["uid"])


def others_objects(kubeconfig: str, stack: str) -> list[str]:
    """Return the existing objects that `stack` would create and remove, but that are not its."""
    paths = (f"/api/v1/namespaces/{NAMESPACE}", f"/api/v1/namespaces/{JOBS}", CRD_PATH)
    found = {path.partition("/v1/")[2]: _get(kubeconfig, path, settled=404) for path in paths}
    return [name for name in found if found[name] is not None and made_by(found[name]) != stack]


def reduced(text: str, context: str) -> str:
    """Return a tool's kubeconfig with only the first cluster and user, and with files inlined."""
    document = yaml.safe_load(text) or {}
    try:
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    except (LookupError, TypeError):
        raise ValueError(f"the kubeconfig for {context} contains no cluster or no user") from None
    cluster.pop("extensions", None)  # its timestamp would look like a change
    return kube.kubeconfig(context, kube.self_contained(cluster), kube.self_contained(user))


def _of_nodes(kubeconfig: str, expected: int) -> list[Problem]:
    """Return problems with the nodes that the API server lists: too few, or not Ready."""
    try:
        nodes = _get(kubeconfig, "/api/v1/nodes")["items"]
    except (*kube.UNREACHABLE, config.ConfigException) as error:
        return [Problem("api", kube.reason(error))]
    few = f"only {len(nodes)} of {expected} exist"
    problems = [Problem("nodes", few)] if len(nodes) < expected else []
    whys = ((node["metadata"]["name"], unready(node)) for node in nodes)
    problems += [Problem("nodes", f"{name}: {why}") for name, why in whys if why is not None]
    return problems


def _get(kubeconfig: str, path: str, settled: int | None = None) -> Any:
    with kube.connect(kubeconfig) as api:
        return kube.ask(api, kube.Request("GET", path), limit=(5, 10), settled=settled)
