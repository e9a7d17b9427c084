"""What kind and minikube have in common: a command line that makes and removes one cluster."""

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
from core import kube, toolchain
from core.context import Context
from core.manifests import unready
from core.paths import state_dir
from core.problem import Problem, raised
from core.process import CommandFailed, run

_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Tool(ABC):
    """A command-line tool, bound to a cluster by its resource's inputs, or by `name` alone."""

    inputs: Mapping[str, Any]

    program: ClassVar[str]
    removal: ClassVar[str]
    """Its command that removes a cluster, up to the cluster's name."""

    @property
    def name(self) -> str:
        return str(self.inputs["name"])

    @property
    def directory(self) -> Path:
        """Where `clusters.owner` has its note, if Slipway has made the cluster or has begun to."""
        return state_dir() / "local-clusters" / self.program / self.name

    @property
    @abstractmethod
    def expected(self) -> int:
        """How many nodes the cluster is made with."""

    @property
    @abstractmethod
    def variables(self) -> Mapping[str, str]:
        """The environment variables that it runs with."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What each of its command lines begins with."""
        return ()

    @abstractmethod
    def engine_problem(self) -> str | None:
        """Return why the container engine of its nodes can't be used; None when it can."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether a cluster of that name exists, working or not."""

    def refusal(self) -> str | None:
        """Return why the existing cluster can't be adopted; None when it can."""
        return None

    @abstractmethod
    def create(self, token: str, context: Context) -> None:
        """Make the cluster, with the token in it from the first moment on."""

    @abstractmethod
    def carries(self, token: str) -> bool:
        """Whether the existing cluster, complete or not, was made with that token."""

    def is_ours(self) -> bool | None:
        """Whether the existing cluster is that of the note; None where the note has no token."""
        token = owner.token_of(self.directory)
        return None if token is None else self.carries(token)

    @abstractmethod
    def start(self, context: Context) -> None:
        """Start what has been stopped of it."""

    @abstractmethod
    def stopped(self) -> list[Problem]:
        """Return what of it doesn't run."""

    @abstractmethod
    def kubeconfig(self) -> str:
        """Return what it takes to connect, in a form that changes only with that."""

    @abstractmethod
    def delete(self) -> None:
        """Remove the cluster; succeeds when it does not exist."""

    @abstractmethod
    def load(self, archive: Path, context: Context) -> None:
        """Bring an archive's images into every node; raises as `core.process.run`."""

    @abstractmethod
    def nodes(self) -> list[str]:
        """Return the nodes' names."""

    @abstractmethod
    def execute(self, node: str, *command: str, limit: float) -> str:
        """Run a program as root on a node and return what it prints. Raises `CommandFailed`."""

    def run(
        self,
        *arguments: str,
        text: str = "",
        limit: float = _ANSWER_SECONDS,
        line: Callable[[str], None] = lambda _text: None,
        context: Context | None = None,
        kubeconfig: Path | None = None,
    ) -> str:
        """Run the tool with another kubeconfig than the user's; `context` shows its lines."""
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
        """Return what is missing on this machine for it to work, each with what to do."""
        missing = raised(partial(toolchain.path, self.program), toolchain.ToolMissing)
        return [each for each in (missing, self.engine_problem()) if each is not None]

    def problems(self, *, adopted: bool) -> list[Problem]:
        """Return what is wrong with the cluster, from the outside inwards, up to the first one."""
        if needs := self.needs():
            return [Problem("tools", need) for need in needs]
        try:
            if not self.exists():
                return [Problem("cluster", f"there is no {self.name} any more")]
            expected = 1 if adopted else self.expected  # of another's, any number
            return self.stopped() or _of_nodes(self.kubeconfig(), expected)
        except (CommandFailed, ValueError, OSError) as error:
            return [Problem("cluster", str(error))]


def _show(context: Context, line: str) -> None:
    if text := line.strip():
        context.status(text)


def identity(kubeconfig: str) -> str:
    """Return what identifies a cluster: the UID of its namespace kube-system."""
    return str(_get(kubeconfig, "/api/v1/namespaces/kube-system")["metadata"]["uid"])


def reduced(text: str, context: str) -> str:
    """Return a tool's kubeconfig with what it takes to connect alone, and its files in it."""
    document = yaml.safe_load(text) or {}
    try:
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    except (LookupError, TypeError):
        raise ValueError(f"the kubeconfig of {context} has no cluster and user") from None
    cluster.pop("extensions", None)  # with the time, which would look like a change
    return kube.kubeconfig(context, kube.self_contained(cluster), kube.self_contained(user))


def _of_nodes(kubeconfig: str, expected: int) -> list[Problem]:
    """Return the problems of the nodes as the API server reports them: too few, or not Ready."""
    try:
        nodes = _get(kubeconfig, "/api/v1/nodes")["items"]
    except (*kube.UNREACHABLE, config.ConfigException) as error:
        return [Problem("api", kube.reason(error))]
    found = [] if nodes else [Problem("nodes", "there is none")]
    if nodes and len(nodes) < expected:
        found.append(Problem("nodes", f"{len(nodes)} of {expected} are there"))
    whys = ((node["metadata"]["name"], unready(node)) for node in nodes)
    found += [Problem("nodes", f"{name}: {why}") for name, why in whys if why is not None]
    return found


def _get(kubeconfig: str, path: str) -> Any:
    with kube.connect(kubeconfig) as api:
        return kube.ask(api, kube.Request("GET", path), limit=(5, 10))
