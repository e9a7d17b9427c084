"""A stack of training jobs alone, on a cluster that is there, run by the real CLI."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient

from clusters.cluster import JOBS
from core import kube, toolchain
from jobs.records import archive
from jobs.run.retry import LABEL as ATTEMPT
from tests.engine import checkpoint
from tests.engine.awaiting import await_true
from tests.engine.cli_stack import Stack

_MAIN = "from tests.engine.pytorchjob_program import program\n\nprogram()\n"


class JobStack(Stack):
    """Programs are what stands under `slipway:jobs`: names and declarations."""

    def __init__(self, directory: Path, root: Path, trainer: str, jobs: "Jobs") -> None:
        self.trainer = trainer
        self._jobs = jobs
        self._names: set[str] = set()
        super().__init__(directory, root, jobs.kubeconfig.read_text(), _MAIN)

    def environment(self, **arguments: Any) -> dict[str, str]:
        self._names |= arguments.keys()
        # Outputs are those of the jobs that succeeded and of those that did not.
        everything = super().environment(**arguments)
        return everything | {"PULUMI_CONTINUE_ON_ERROR": "true", "TEST_TRAINER": self.trainer}

    @property
    def saved(self) -> dict[str, Any]:
        """The state as its file has it now, in the form of an export, its secrets encrypted."""
        return {"deployment": checkpoint.latest(self.backend, "test")}

    def leave(self) -> None:
        """Remove what a test has left in the cluster, whether or not the state knows of it."""
        for name in self._names:
            self._jobs.remove(name)
        for each in self.resources:
            is_claim = each["type"] == "slipway:jobs:Claim"
            if is_claim or each["type"].startswith("kubernetes:core/v1:"):
                kind = "persistentvolumeclaim" if is_claim else each["type"].rpartition(":")[2]
                name = each["id"].rpartition("/")[2]
                self._jobs.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false")


@dataclass(frozen=True)
class Jobs:
    """The namespace of the jobs, as kubectl shows it."""

    kubeconfig: Path

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """Run kubectl in the namespace, with `given` to read, and return what it said."""
        command = [toolchain.path("kubectl"), "--kubeconfig", self.kubeconfig, "--namespace", JOBS]
        return subprocess.run(
            [*map(str, command), *arguments],
            input=given, check=True, capture_output=True, text=True, timeout=90,
        ).stdout  # fmt: skip

    @cached_property
    def _api(self) -> ApiClient:
        return kube.connect(self.kubeconfig.read_text())

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Ask the API server, as often as a test likes: a kubectl a look took most of the suite."""
        answer = kube.send(self._api, kube.Request("GET", path, query or {}), limit=90)
        return answer.data

    def items(self, kind: str, job: str) -> list[dict[str, Any]]:
        """Return the job's objects of one kind: its pods, or itself."""
        label = "slipway.dev/job" if kind == "pytorchjobs" else "training.kubeflow.org/job-name"
        items: list[dict[str, Any]] = json.loads(
            self._get(_PATHS[kind], {"labelSelector": f"{label}={job}"})
        )["items"]
        return items

    def uids(self, job: str) -> list[str]:
        return [str(item["metadata"]["uid"]) for item in self.items("pytorchjobs", job)]

    def events(self, job: str) -> list[dict[str, Any]]:
        """Return the events that the job's ranks wrote to their logs, as far as they started."""
        pods = [pod["metadata"]["name"] for pod in self.items("pods", job) if _has_log(pod)]
        logs = [self._get(f"{_PATHS['pods']}/{pod}/log").decode() for pod in pods]
        lines = [line for log in logs for line in log.splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def attempts(self, job: str) -> list[str]:
        return [item["metadata"]["labels"][ATTEMPT] for item in self.items("pytorchjobs", job)]

    def evict(self, pod: str) -> None:
        """Take a pod away as `kubectl drain` does."""
        metadata = {"name": pod, "namespace": JOBS}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{JOBS}/pods/{pod}/eviction"
        self.kubectl("create", "--raw", path, "--filename", "-", given=json.dumps(eviction))

    def remove(self, job: str) -> None:
        """Remove a job and its pods, and what this machine has kept of its logs."""
        # Its pods by themselves: a program that ignores SIGTERM would use all of its grace period.
        self.kubectl("delete", "pytorchjob", job, "--ignore-not-found", "--cascade=orphan")
        label = f"training.kubeflow.org/job-name={job}"
        self.kubectl("delete", "pods,services", "-l", label, "--grace-period=1")
        archive.of_job("test", job).remove()

    def await_running(self, job: str) -> str:
        """Wait until rank 0 runs, and return the PyTorchJob's identity."""
        await_true(lambda: any(_is_running(pod) for pod in self.items("pods", job)))
        [uid] = self.uids(job)
        return uid

    def await_all_running(self, job: str, pods: int) -> None:
        def are_running() -> bool:
            phases = [pod["status"]["phase"] for pod in self.items("pods", job)]
            return phases == ["Running"] * pods

        await_true(are_running)


_PATHS = {
    "pods": f"/api/v1/namespaces/{JOBS}/pods",
    "pytorchjobs": f"/apis/kubeflow.org/v1/namespaces/{JOBS}/pytorchjobs",
}


def _has_log(pod: dict[str, Any]) -> bool:
    states = [each["state"] for each in pod["status"].get("containerStatuses", [])]
    return any("running" in state or "terminated" in state for state in states)


def _is_running(pod: dict[str, Any]) -> bool:
    replica = pod["metadata"]["labels"]["training.kubeflow.org/replica-type"]
    return bool((replica, pod["status"]["phase"]) == ("master", "Running"))
