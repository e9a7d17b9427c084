"""A machine with kind, a recorded docker, and a recorded minikube, and the cluster behind them."""

import io
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import toolchain
from tests.doubles import recorded
from tests.unit.fake_api import FakeApi

IMAGE = "localhost/slipway-trainer:0123456789ab"
READY = {"type": "Ready", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False", "message": "container runtime is down"}


@dataclass
class Machine:
    """What a test may look at and change.

    Args:
        directory: Its home, its PATH's programs, and what the recorded programs keep.
        api: The API server that every cluster on it has.
        clusters: What a test has found out about a cluster, for the others of its module.
    """

    directory: Path
    api: FakeApi
    clusters: dict[str, Any] = field(default_factory=dict)

    def nodes(self, *conditions: dict[str, str]) -> None:
        """Let the cluster have a node for each condition."""
        items = [
            {"metadata": {"name": f"node-{number}"}, "status": {"conditions": [condition]}}
            for number, condition in enumerate(conditions)
        ]
        self.api.says("GET", "/api/v1/nodes", {"kind": "NodeList", "items": items})

    def identity(self, uid: str) -> None:
        """Let it be another cluster."""
        document = {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}}
        self.api.says("GET", "/api/v1/namespaces/kube-system", document)

    def calls(self, program: str) -> list[list[str]]:
        """Return what a recorded program was told."""
        return recorded.calls(self.directory, program)

    def kept(self, program: str) -> dict[str, Any]:
        """Return what a recorded program keeps."""
        return recorded.kept(self.directory, program)

    def keep(self, program: str, state: dict[str, Any]) -> None:
        """Let a recorded program have kept something."""
        recorded.keep(self.directory, program, state)

    def run(self, *command: str) -> str:
        """Run one of its programs as a person would."""
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def without(self, program: str) -> None:
        """Take a tool away: set-up has not found it."""
        record = toolchain.record()
        document = json.loads(record.read_text())
        del document["tools"][program]
        record.write_text(json.dumps(document))

    def archive(self, name: str) -> Path:
        """Return an archive of docker's with an image of that name."""
        path = self.directory / "image.tar"
        manifest = json.dumps([{"Config": "c.json", "RepoTags": [name], "Layers": []}]).encode()
        with tarfile.open(path, "w") as tar:
            member = tarfile.TarInfo("manifest.json")
            member.size = len(manifest)
            tar.addfile(member, io.BytesIO(manifest))
        return path


def person_has_a_kubeconfig(directory: Path) -> Path:
    """Write a kubeconfig of the person's own, which nobody may touch unasked."""
    file = directory / ".kube" / "config"
    file.parent.mkdir(exist_ok=True)
    file.write_text("# mine\n")
    os.utime(file, (1, 1))
    return file
