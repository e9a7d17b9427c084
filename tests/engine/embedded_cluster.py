"""A real embedded cluster of the tests' own, and how to ask and hurt it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.embedded import health, host, images, isolation, lifecycle, pki, supervisor
from clusters.embedded.layout import Layout
from core import toolchain
from core.context import Silence
from core.paths import CHECKOUT
from core.process import run
from images.build import program
from images.build.job import RequirementsSpec
from images.build.trainer import TRAINER
from images.image_lifecycle import ImageHandler, JobImageHandler
from jobs.run.resource import WAITERS_PACKAGES
from tests.engine.awaiting import COMMAND_SECONDS

_CREATE = """
import sys
from functools import partial
from pathlib import Path
from clusters.embedded import lifecycle
from clusters.embedded.layout import Layout
lifecycle.bring_up(Layout(Path(sys.argv[1])), report=partial(print, flush=True))
"""
KUBECTL_IMAGE = "slipway.local/kubectl:test"


@dataclass(frozen=True)
class TestCluster:
    """A cluster in a directory of the tests' own."""

    __test__ = False

    layout: Layout

    @property
    def create_command(self) -> list[str]:
        """A program that brings it up and prints what has been reached."""
        return [sys.executable, "-c", _CREATE, str(self.layout.directory)]

    def heal(self) -> list[str]:
        """Do what `up` does, and return what it said."""
        said: list[str] = []
        lifecycle.bring_up(self.layout, said.append)
        return said

    def create_and_kill_halfway(self) -> None:
        """Begin to create it, and kill the command while the components are starting."""
        with subprocess.Popen(
            self.create_command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
        ) as creating:
            assert creating.stdout is not None
            for line in creating.stdout:
                if line.startswith("components have started"):
                    break
            creating.kill()
        assert creating.returncode == -9, "the create ended before it was killed"

    def problems(self) -> list[str]:
        return [str(problem) for problem in health.problems(self.layout)]

    def processes(self) -> dict[str, int]:
        """The process of each component that runs."""
        infos = supervisor._ask(self.layout, "getAllProcessInfo")
        return {info["name"]: info["pid"] for info in infos if info["pid"] != 0}

    def kill(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def kubectl(self, *arguments: str, manifests: Sequence[Mapping[str, Any]] = ()) -> str:
        file = self.layout.directory.parent / "kubeconfig"
        file.touch(0o600)
        file.write_text(pki.kubeconfig(self.layout, "admin"))
        documents = "\n---\n".join(map(json.dumps, manifests))
        command = (host.path("kubectl"), f"--kubeconfig={file}", *arguments)
        return run(*command, text=documents, limit=COMMAND_SECONDS)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def add_kubectl_image(self) -> None:
        """A static program that can write and read a file and ask the API server."""
        self.add_image(KUBECTL_IMAGE, toolchain.path("kubectl"), "/kubectl")

    def add_image(self, name: str, binary: Path, entrypoint: str) -> None:
        archive = self.layout.directory.parent / f"{binary.name}.tar"
        with archive.open("w+b") as file:
            program.write_archive(file, name, binary, entrypoint)
        self.ctr("import", str(archive))

    def ctr(self, *arguments: str) -> None:
        """Do something with the images on its node."""
        address = f"--address={self.layout.containerd_socket}"
        run(host.path("ctr"), address, "--namespace=k8s.io", "images", *arguments, limit=60)


def program_images() -> dict[str, str]:
    """Return what a pod calls the programs that every embedded cluster's node has."""
    return {
        "trainingOperator": host.image_reference("training-operator"),
        "tcpWait": host.image_reference("tcp-wait"),
    }


def bring_in_trainer(cluster: TestCluster) -> str:
    """Have the trainer's image on the node and return what a pod calls it."""
    inputs = {**TRAINER.inputs, "target": _target(cluster)}
    _, outputs = ImageHandler().create(inputs, Silence())
    return str(outputs["reference"])


def bring_in_waiter(cluster: TestCluster) -> str:
    """Have the image of what waits in a cluster on the node and return what a pod calls it."""
    spec = RequirementsSpec.from_file(WAITERS_PACKAGES, TRAINER.name, TRAINER.reference)
    inputs = {**spec.inputs, "target": _target(cluster)}
    _, outputs = JobImageHandler().create(inputs, Silence())
    return str(outputs["pinned"])


def _target(cluster: TestCluster) -> dict[str, str]:
    address = str(cluster.layout.containerd_socket)
    return {"kind": "containerd", "address": address, "namespace": images.NAMESPACE}


def kernel_parameters() -> list[str]:
    """Return the machine's kernel parameters that a kubelet would change."""
    return [(Path("/proc/sys") / name).read_text() for name in isolation.KERNEL]


def restricted_pod(name: str, *arguments: str, claim: str | None = None) -> dict[str, Any]:
    """A pod that Pod Security's level `restricted` admits; it runs kubectl once."""
    mounts = [] if claim is None else [{"name": "data", "mountPath": "/data"}]
    source = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    container = {
        "name": "kubectl",
        "image": KUBECTL_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": list(arguments),
        # A name instead of the address that the kubelet puts there.
        "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default.svc"}],
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 4711,
                "runAsGroup": 4711,
                "fsGroup": 4712,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [] if claim is None else [source],
        },
    }
