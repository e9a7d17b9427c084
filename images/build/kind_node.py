"""The image of kind's nodes where `kindest/node` can't be pulled."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from core import toolchain
from core.paths import CHECKOUT
from core.problem import raised
from images.build import debian
from images.build.engines import Engine, Plan
from images.build.runner import Runner
from images.build.spec import BuildSpec, digest_of

_SUITE = "bookworm"
"""Newer ones' systemd refuses control groups of version 1."""
_FILES = "kind-node-files"
_VOLUMES = "kind-volumes"
_PROGRAMS = (
    "coredns", "etcd-server", "kube-apiserver", "kube-controller-manager", "kube-proxy",
    "kube-scheduler", "kubeadm", "kubelet", "local-path-provisioner", "pause",
)  # fmt: skip


@dataclass(frozen=True)
class KindNode(BuildSpec):
    """A node of kind's, with the images of Kubernetes' own pods in it."""

    name: str = "slipway-kind-node"
    context: Path = CHECKOUT / "images" / "kind_node"
    estimate = "about 2 minutes, and 3 GB"
    TOOLS: ClassVar[tuple[str, ...]] = (_FILES, _VOLUMES, *_PROGRAMS, "buildah", "mmdebstrap")
    """What it is built with and from."""

    @classmethod
    def is_provided(cls) -> bool:
        """Whether set-up has provided all that it is built from."""
        return raised(lambda: [*map(toolchain.path, cls.TOOLS)], toolchain.ToolMissing) is None

    @cached_property
    def content_hash(self) -> str:
        digest = hashlib.sha256(digest_of(self.context) + digest_of(toolchain.path(_FILES)))
        for name in (_VOLUMES, *_PROGRAMS):
            tool = toolchain.tool(name)
            digest.update(f"\0{name}\0{tool.version}".encode())
        return digest.hexdigest()

    def prepare(self, engine: Engine, runner: Runner, work: Path) -> Plan:
        arguments = (f"BASE={debian.base_image(engine, runner, work, _SUITE)}",)
        context = work / "context"
        shutil.copytree(self.context, context)
        shutil.copytree(toolchain.path(_FILES), context / "files")
        (context / "bin").mkdir()
        for name in ("kubectl", *_PROGRAMS):
            shutil.copy(toolchain.path(name), context / "bin")
        manifest, images = volumes(toolchain.path(_VOLUMES).read_text())
        kind = context / "own" / "kind"
        (kind / "manifests" / "default-storage.yaml").write_text(manifest)
        for name, image in images.items():
            (kind / name).write_text(image)
        return Plan(context, context / "Dockerfile", arguments)


def volumes(source: str) -> tuple[str, Mapping[str, str]]:
    """Return kind's manifest of its StorageClass, and the images in it, out of a Go file of its."""
    names = dict(re.findall(r'const (\w+) = "(.*?)"', source))
    (text,) = re.findall(r"const defaultStorageManifest = `(.*)`", source, re.DOTALL)
    manifest = re.sub(r"` \+ (\w+) \+ `", lambda match: names[match[1]], text)
    return manifest, {
        "provisioner": names["storageProvisionerImage"],
        "helper": names["storageHelperImage"],
    }
