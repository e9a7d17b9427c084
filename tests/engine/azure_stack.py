"""The whole program on a stack in Azure, with a cluster of the tests' own behind the declared one.

Azure is the double in tests/doubles/azure_native, and so is whoever logs in to the cluster.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from clusters.embedded import pki
from clusters.embedded.host import image_reference
from core import toolchain
from core.paths import CHECKOUT
from images.build.program import ENTRYPOINTS, Program
from images.targets.target import target_of
from tests.doubles import recorded_az, recorded_kubelogin
from tests.doubles.azure_native.store import VARIABLE, Store
from tests.engine.cli_stack import MAIN, Outcome, WholeStack
from tests.engine.embedded_cluster import TestCluster, program_images

_DOUBLE = "tests.doubles.azure_native"
_OWN = {
    "00000000-0000-0000-0000-000000000000": recorded_az.ME,
    "203.0.113.0/24": "20.50.0.0/16",
    "you@example.org": "you@slipway.test",
    "registry.example.internal": "registry.slipway.test",
    "AAAAB3NzaC1yc2EAAAADAQABAAABAQ placeholder": f"AAAAB3NzaC1yc2EAAAADAQABAAABAQ{'C' * 342} me",
}
"""By the placeholders that stacks/azure.yaml and stacks/azure-stack.yaml have."""


class AzureStack(WholeStack):
    """The whole program with a configuration of its own."""

    def __init__(
        self,
        directory: Path,
        root: Path,
        cluster: TestCluster | None,  # behind every declared cluster, if any is declared
        settings: Mapping[str, Any],
        jobs: Mapping[str, Any],
        main: str = MAIN,
    ) -> None:
        self.azure = make_store(directory / "azure", cluster)
        self._bin = write_programs(directory / "bin")
        super().__init__(directory, root, main, azure=self._bin)
        self.settings = dict(settings)
        self.jobs = dict(jobs)

    def environment(self, **arguments: Any) -> dict[str, str]:
        environment = super().environment(**arguments)
        return environment | {
            "PATH": f"{self._bin}{os.pathsep}{environment['PATH']}",
            VARIABLE: str(self.azure.directory),
        }

    def declare(self) -> None:
        """Write what `settings` and `jobs` are now into the stack's file."""
        # There is no storage behind the double's account.
        self.configure(cluster=self.settings, jobs=self.jobs, outputs={"keep": False})

    def bring_up(self) -> Outcome:
        self.declare()
        return self.up()

    def in_azure(self, kind: str) -> list[str]:
        """Return the names of the resources of one type in the double, such as `AgentPool`."""
        return [
            record.id.rpartition("/")[2]
            for record in self.azure.all()
            if record.type.endswith(f":{kind}")
        ]


def make_store(directory: Path, cluster: TestCluster | None) -> Store:
    directory.mkdir()
    store = Store(directory)
    store.kubeconfig.touch(0o600)
    if cluster is not None:
        store.kubeconfig.write_text(pki.kubeconfig(cluster.layout, "admin"))
    return store


def write_programs(directory: Path) -> Path:
    """Write the double's plugin, `kubelogin` and `az` into a directory and return that."""
    directory.mkdir()
    recorded_az.install(directory)
    recorded_kubelogin.install(directory)
    program = directory / "pulumi-resource-azure-native"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {_DOUBLE} "$@"\n')
    program.chmod(0o755)
    return directory


def own(stack: str, **changed: Any) -> dict[str, Any]:
    """Return a committed stack's settings with values where they have placeholders."""
    document = yaml.safe_load((CHECKOUT / f"stacks/{stack}.yaml").read_text())
    text = json.dumps(document["config"]["slipway:cluster"])
    for placeholder, value in _OWN.items():
        text = text.replace(placeholder, value)
    return {**json.loads(text), **changed}


def images(trainer: str) -> dict[str, str]:
    # The image with CUDA takes several GB, and there is no GPU for it here.
    return {"trainer": trainer, "trainerCuda": trainer, **program_images()}


def let_pull(cluster: TestCluster, server: str) -> None:
    """Have on the node, by a registry's names, what it could pull from there: it can't reach it."""
    for name, entrypoint in ENTRYPOINTS.items():
        program = Program.from_tool(toolchain.tool(name), entrypoint)
        pushed = target_of({"kind": "registry", "server": server}).name(program.reference)
        cluster.ctr("tag", image_reference(name), pushed)
