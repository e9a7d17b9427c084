"""Manage one profile with minikube (https://minikube.sigs.k8s.io/docs/commands/)."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from pydantic.alias_generators import to_snake

from clusters.cli_clusters import podman
from clusters.cli_clusters.cli_cluster import NodeImages, ToolHandler
from clusters.cli_clusters.engine import Engine
from clusters.cli_clusters.tool import Tool, reduced
from core import toolchain
from core.context import Context
from core.problem import Problem
from core.process import CommandFailed
from images.build import engines
from images.build.kind_node import MinikubeNode

CONTAINER_DRIVERS = ("docker", "podman")
"""Drivers that run nodes in the container engine of the same name; only these support ports."""
_CREATE_SECONDS = 1800.0
"""Timeout in seconds; the nodes' image or disk, about 1.5 GB, may have to be fetched first."""
_RUNTIME = "containerd"
"""The container runtime, as in all other cluster kinds. With docker, an image could be found by
its digest only if it was pulled."""
_SHAPE = ("driver", "cpus", "memory", "diskSize", "nodes", "kubernetesVersion")
"""Inputs that become flags with the same name, such as --disk-size."""
_OFFLINE = ("--force", "--preload=false", "--cache-images=false", "--install-addons=false")
"""Flags for `MinikubeNode`, which contains its images and StorageClass. Without --force,
minikube looks up any Kubernetes version newer than itself on the internet."""
_OWN_PODMAN = "own-podman"
"""A file in the cluster's directory, which exists while Slipway's own podman runs the nodes."""
_LABELS, _MARK = "node-labels", "slipway.dev/creation="
"""The kubelet flag for node labels, and the label whose value is the creation token."""


class MinikubeTool(Tool):
    """The program `minikube`, for one profile; `clusters.minikube.cluster` returns its inputs."""

    program: ClassVar[str] = "minikube"
    removal: ClassVar[str] = "minikube delete --profile"

    @property
    def expected(self) -> int:
        return int(self.inputs.get("nodes", 1))

    @property
    def variables(self) -> Mapping[str, str]:
        ours = {}
        if Path(self.directory, _OWN_PODMAN).exists():
            ours = {**podman.engine().variables, "MINIKUBE_HOME": str(podman.storage())}
        return {"MINIKUBE_WANTUPDATENOTIFICATION": "false", **ours}

    @property
    def prefix(self) -> tuple[str, ...]:
        return (f"--profile={self.name}",)

    def engine_problem(self) -> str | None:
        chosen = self._engine if self.inputs.get("driver") else None
        return None if chosen is None else chosen.problem()

    def exists(self) -> bool:
        # `minikube profile list` would create that directory.
        return self._home.exists() and self._profile() is not None

    def refusal(self) -> str | None:
        runtime = self._kubernetes().get("ContainerRuntime")
        if runtime == _RUNTIME:
            return None
        return (
            f"its container runtime is {runtime or 'unknown'}, but only {_RUNTIME} identifies all "
            f"images by digest. Recreate the profile with --container-runtime={_RUNTIME}"
        )

    def create(self, token: str, context: Context) -> None:
        # minikube writes the token to the profile's configuration before it creates a node.
        mark = f"--extra-config=kubelet.{_LABELS}={_MARK}{token}"
        flags, offline = create_flags(self.inputs), self._offline_flags(context)
        self.run("start", *flags, mark, *offline, limit=_CREATE_SECONDS, context=context)
        if offline:  # kind's StorageClass, which the node contains, instead of the addon
            apply = ("kubectl", "--kubeconfig=/var/lib/minikube/kubeconfig", "apply", "--filename")
            self.execute(self.name, *apply, "/kind/manifests/default-storage.yaml", limit=60.0)

    def carries(self, token: str) -> bool:
        options = self._kubernetes().get("ExtraOptions") or []
        labels = [each.get("Value") for each in options if each.get("Key") == _LABELS]
        return _MARK + token in labels

    def start(self, context: Context) -> None:
        if self.stopped():
            if Path(self.directory, _OWN_PODMAN).exists():
                podman.prepare()
            flags = [*_start_flags(self.inputs), *(_OFFLINE if MinikubeNode.is_provided() else ())]
            self.run("start", *flags, limit=_CREATE_SECONDS, context=context)

    def stopped(self) -> list[Problem]:
        return [
            Problem("nodes", f"{each.get('Name', self.name)}: {part} is {each[part]}")
            for each in self._statuses()
            for part in ("Host", "Kubelet", "APIServer")
            if each.get(part) not in {"Running", "Irrelevant", None}
        ]

    def kubeconfig(self) -> str:
        with tempfile.TemporaryDirectory(prefix="slipway-minikube-") as directory:
            file = Path(directory, "kubeconfig")
            self.run("update-context", kubeconfig=file)
            return reduced(file.read_text(), self.name)

    def delete(self) -> None:
        if self.exists():
            self.run("delete", limit=180.0)
        podman.restore()

    def load(self, archive: Path, context: Context) -> None:
        self.run("image", "load", str(archive), limit=_CREATE_SECONDS, context=context)

    def nodes(self) -> list[str]:
        return [str(each["Name"]) for each in self._statuses()]

    def execute(self, node: str, *command: str, limit: float) -> str:
        return self.run("ssh", f"--node={node}", "--", "sudo", *command, limit=limit)

    @property
    def _engine(self) -> Engine | None:
        """The nodes' container engine; if it does not work, minikube may use a different one."""
        driver = self.inputs.get("driver")
        engines = [Engine(each) for each in CONTAINER_DRIVERS if driver in {None, each}]
        return podman.choose(engines, own=driver in {None, "podman"})

    @property
    def _home(self) -> Path:
        """The directory that contains minikube's profiles and cache."""
        home = {**os.environ, **self.variables}.get("MINIKUBE_HOME") or Path.home()
        return Path(home) if Path(home).name == ".minikube" else Path(home, ".minikube")

    def _offline_flags(self, context: Context) -> list[str]:
        """Provide files that minikube would fetch, if possible, and return flags to use them."""
        engine = self._engine
        if engine is None or engine.problem() or not MinikubeNode.is_provided():
            return []
        version = "v" + toolchain.tool("kubelet").version.removeprefix("v")
        if (requested := self.inputs.get("kubernetesVersion", version)) != version:
            text = f"{requested} is not available; set {version}, or remove this setting"
            raise RuntimeError(f"slipway:cluster.kubernetesVersion: {text}")
        if engine.is_ours:
            podman.prepare()
            Path(self.directory, _OWN_PODMAN).touch()
        image = engine.provide(MinikubeNode(), context)
        archive = Path(image.replace(":", "_")).name + ".tar"  # must exist, but is not read
        for name in (f"linux/amd64/{version}/kubeadm", f"kic/amd64/{archive}"):
            place = self._home / "cache" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(toolchain.path("kubeadm"))
        made_of = (f"--base-image={image}", f"--kubernetes-version={version}", "--cni=false")
        return [*_OFFLINE, *made_of, f"--driver={engine.program}"]

    def _profile(self) -> Mapping[str, Any] | None:
        listed = json.loads(self.run("profile", "list", "--output=json"))
        every = [*(listed.get("valid") or []), *(listed.get("invalid") or [])]
        return next((each for each in every if each["Name"] == self.name), None)

    def _kubernetes(self) -> Mapping[str, Any]:
        """Return the profile's Kubernetes settings, or an empty map if they can't be read."""
        return ((self._profile() or {}).get("Config") or {}).get("KubernetesConfig") or {}

    def _statuses(self) -> list[Mapping[str, Any]]:
        """Return minikube's status for each node, even if minikube fails because one is stopped."""
        lines: list[str] = []
        with suppress(CommandFailed):
            self.run("status", "--output=json", line=lines.append)
        for text in lines:
            with suppress(ValueError):
                status = json.loads(text)
                return status if isinstance(status, list) else [status]
        raise CommandFailed(f"can't read `minikube status` for {self.name}: {' '.join(lines)}")


class MinikubeHandler(ToolHandler):
    """The handler for the resource `slipway:clusters:Minikube`, a minikube profile."""

    tool = MinikubeTool


def images(profile: str) -> NodeImages:
    """Return the image target for the nodes of the minikube profile with this name."""
    return NodeImages(MinikubeTool({"name": profile}))


def create_flags(inputs: Mapping[str, Any]) -> list[str]:
    """Return the `minikube start` flags for a new profile with a resource's inputs."""
    shape = [key for key in _SHAPE if inputs.get(key) is not None]
    flags = [f"--{to_snake(key).replace('_', '-')}={inputs[key]}" for key in shape]
    if ports := inputs.get("ports"):
        flags.append(f"--ports={','.join(ports)}")
    return [*flags, f"--container-runtime={_RUNTIME}", *_start_flags(inputs)]


def _start_flags(inputs: Mapping[str, Any]) -> list[str]:
    """Return the `minikube start` flags that a new and an existing profile have in common."""
    flags = ["--force"] if inputs.get("force") else []
    if mount := inputs.get("mount"):
        flags += ["--mount", f"--mount-string={mount['host']}:{mount['node']}"]
    return [*flags, "--keep-context", "--embed-certs", "--wait=all", "--interactive=false"]


def more_tools(cluster: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tools that setup must provide besides minikube, for the nodes and for images."""
    works = any(Engine(each).problem() is None for each in CONTAINER_DRIVERS)
    needed = podman.storage().exists() or not (works or shutil.which("virsh"))  # virsh: kvm2
    nodes = MinikubeNode.needed(cluster, MinikubeTool(cluster).directory)
    return (*(podman.TOOLS * needed), *engines.needed(cluster), *nodes)
