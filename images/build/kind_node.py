"""Node images for kind and minikube, for machines that can't pull the published ones."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import requests

from core import toolchain
from core.paths import CHECKOUT
from core.problem import raised
from images.build import debian, engines
from images.build.engines import Engine, Plan
from images.build.runner import Runner
from images.build.spec import BuildSpec, digest_of

_SUITE = "bookworm"
"""The newest suite whose systemd supports cgroup v1."""
_FILES, _VOLUMES = _PARTS = ("kind-node-files", "kind-volumes")
_PROGRAMS = (
    "coredns", "etcd-server", "kube-apiserver", "kube-controller-manager", "kube-proxy",
    "kube-scheduler", "kubeadm", "kubelet", "local-path-provisioner", "pause",
)  # fmt: skip


@dataclass(frozen=True)
class KindNode(BuildSpec):
    """The image of a kind node, which includes the images for Kubernetes' own pods."""

    name: str = "slipway-kind-node"
    context: Path = CHECKOUT / "images" / "kind_node"
    estimate = "takes about 2 minutes, and 3 GB of disk"
    REGISTRY: ClassVar[str] = "https://registry-1.docker.io/v2/"
    """The registry of the published image. Any response, even 401, shows that it is reachable."""
    OVER: ClassVar[tuple[Path, ...]] = ()
    """Directories whose files are copied over those in `context`."""
    TOOLS: ClassVar[tuple[str, ...]] = (*engines.TOOLS, *_PARTS, *_PROGRAMS)
    """The tools and parts that the image is built from; programs in the image come last."""

    @classmethod
    def needed(cls, cluster: Mapping[str, Any], notes: Path) -> tuple[str, ...]:
        """Return the tools that setup must provide, given the cluster's settings and directory.

        Unless they are all provided already, none are needed for an existing cluster, for nodes of
        another image, by users who may not build one, or if the published image can be pulled.
        """
        if cls.is_provided():
            return cls.TOOLS
        if notes.exists() or cluster.get("adopt") or cluster.get("image") or os.geteuid() != 0:
            return ()
        request = partial(requests.get, cls.REGISTRY, timeout=5.0)
        return () if raised(request, requests.RequestException) is None else cls.TOOLS

    @classmethod
    def is_provided(cls) -> bool:
        """Return whether setup has provided all tools and parts that the image is built from."""
        return raised(lambda: [*map(toolchain.path, cls.TOOLS)], toolchain.ToolMissing) is None

    @cached_property
    def content_hash(self) -> str:
        parts = (self.context, toolchain.path(_FILES), *self.OVER)
        digest = hashlib.sha256(b"".join(map(digest_of, parts)))
        for name in self.TOOLS[len(engines.TOOLS) :]:
            tool = toolchain.tool(name)
            digest.update(f"\0{name}\0{tool.version}".encode())
        return digest.hexdigest()

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        arguments = (f"BASE={debian.base_image(engine, runner, work, _SUITE)}",)
        context = work / "context"
        for part in (self.context, *self.OVER):
            shutil.copytree(part, context, dirs_exist_ok=True)
        shutil.copytree(toolchain.path(_FILES), context / "files")
        (context / "bin").mkdir()
        for name in ("kubectl", *self.TOOLS[len(engines.TOOLS + _PARTS) :]):
            shutil.copy(toolchain.path(name), context / "bin")
        manifest, images = volumes(toolchain.path(_VOLUMES).read_text())
        kind = context / "own" / "kind"
        (kind / "manifests" / "default-storage.yaml").write_text(manifest)
        for name, image in images.items():
            (kind / name).write_text(image)
        return Plan(context, context / "Dockerfile", arguments)


@dataclass(frozen=True)
class MinikubeNode(KindNode):
    """The image of a minikube node: a kind node with the additions that minikube expects."""

    name: str = "slipway-minikube-node"
    REGISTRY: ClassVar[str] = "https://gcr.io/v2/"
    OVER: ClassVar[tuple[Path, ...]] = (CHECKOUT / "images" / "minikube_node",)
    TOOLS: ClassVar[tuple[str, ...]] = (*KindNode.TOOLS, "crictl", "minikube-entrypoint")


def volumes(source: str) -> tuple[str, Mapping[str, str]]:
    """Return the default StorageClass manifest, and its images, from kind's Go source."""
    names = dict(re.findall(r'const (\w+) = "(.*?)"', source))
    (text,) = re.findall(r"const defaultStorageManifest = `(.*)`", source, re.DOTALL)
    manifest = re.sub(r"` \+ (\w+) \+ `", lambda match: names[match[1]], text)
    return manifest, {
        "provisioner": names["storageProvisionerImage"],
        "helper": names["storageHelperImage"],
    }
