"""Runs of half a day in minutes: the test moves the waiter's clock on.

The waiter runs in this process, as in its pod: by its account's rights, and a token in a file.
"""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.config import incluster_config

from clusters.cluster import JOBS
from core import kube
from jobs.records.archive import Archive
from jobs.run.ledger import Ledger
from jobs.run.waiter import wait
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.embedded_cluster import TestCluster
from tests.engine.job_programs import python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

pytestmark = pytest.mark.long
_HOURS, _HOUR_SECONDS, _STEPS = 12, 15, 30
_TALKING = """
import os, time
number = 0
while not os.path.exists("/tmp/end"):
    print(number, "x" * 1000, flush=True)
    number += 1
    time.sleep(0.01)
print(number)
"""
"""Prints some 15 MB until it is to end: a kubelet keeps 10 MiB of a log in one file."""


@dataclass
class Account:
    """The files of a pod's account, whose token the test renews as a kubelet does."""

    jobs: Jobs
    name: str  # of the account, and the beginning of its tokens' owners
    directory: Path

    def renew(self, number: int) -> None:
        """Put a token that ends with `expire(number)` in the place of the one before."""
        owner = f"{self.name}-{number}"
        self.jobs.kubectl("create", "secret", "generic", owner)
        bound = (f"--bound-object-name={owner}", "--bound-object-kind=Secret")
        token = self.jobs.kubectl("create", "token", self.name, *bound)
        new = self.directory / "new"
        new.write_text(token)
        new.rename(self.directory / "token")

    def expire(self, number: int) -> None:
        """Have the API server refuse a token as it refuses one that has expired."""
        self.jobs.kubectl("delete", "secret", f"{self.name}-{number}")


@dataclass
class Left:
    """A run and its waiter, whose clock is `ahead` by so many seconds."""

    ledger: Ledger
    account: Account
    archive: Archive
    ahead: float = 0.0

    def clock(self) -> float:
        return time.monotonic() + self.ahead

    def known(self, key: str) -> Any:
        return json.loads((self.ledger.read_values() or {}).get(key, "null"))


@pytest.fixture
def left(
    runs: Runs, jobs: Jobs, job_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Left:
    """A waiter's pod without one: no node has its image."""
    runs.waiter = "slipway.invalid/none:0"
    [cluster] = yaml.safe_load(runs.kubeconfig)["clusters"]
    address = urlsplit(cluster["cluster"]["server"])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    authority = kube.self_contained(cluster["cluster"]) | cluster["cluster"]
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(authority["certificate-authority-data"]))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    account = Account(jobs, f"{job_name}-waiter", tmp_path)
    outside = Ledger.connect(runs.kubeconfig, JOBS, job_name)
    return Left(outside, account, Archive(tmp_path / "runs"))


@contextmanager
def waiting(left: Left) -> Iterator[None]:
    """Have the waiter of a run that is just submitted at work."""
    name = left.ledger.name
    await_true(lambda: left.ledger.read_values() is not None)
    await_true(lambda: f"{name}-waiter" in left.account.jobs.kubectl("get", "rolebinding"))
    left.account.renew(0)
    inside = Ledger(kube.inside(), JOBS, name)
    waiter = threading.Thread(target=wait, args=(inside, left.archive, left.clock), daemon=True)
    waiter.start()
    yield
    waiter.join(COMMAND_SECONDS)
    assert not waiter.is_alive()


def test_a_run_of_twelve_hours_is_waited_for_to_its_end(
    job_name: str, left: Left, runs: Runs, jobs: Jobs, trainer: str, own_cluster: TestCluster
) -> None:
    """Tokens expire, the API server restarts and logs are rotated meanwhile; nothing is lost."""
    declared = python(trainer, _TALKING, wait=False, timeout="13h", stall="2h", workers=1)
    with runs.training(job_name, **declared) as going, waiting(left):
        going.end()
        for hour in range(1, _HOURS + 1):
            for _ in range(_STEPS):
                left.ahead += (3600 - _HOUR_SECONDS) / _STEPS
                time.sleep(_HOUR_SECONDS / _STEPS)
            if hour in {1, 6}:
                left.account.renew(hour)
            if hour in {6, 11}:  # the client has read the next one, which it does each minute
                left.account.expire({6: 0, 11: 1}[hour])
            if hour in {3, 8}:
                own_cluster.kill(own_cluster.processes()["kube-apiserver"])
                await_true(lambda: left.known("run") is not None)
        for pod in (f"{job_name}-master-0", f"{job_name}-worker-0"):
            jobs.kubectl("exec", pod, "--", "touch", "/tmp/end")
    result = left.known("result")
    assert result["state"] == "Succeeded", result
    assert left.known("warnings") in (None, [])
    logs = left.archive.run(result["run_id"]).logs()
    assert len(logs) == 2
    for log in logs:
        numbers = [int(line.text.split()[0]) for line in log.lines()]
        assert numbers == [*range(len(numbers) - 1), numbers[-1]]
        assert numbers[-1] == len(numbers) - 1
    assert sum(len(line.text) for line in logs[0].lines()) > 11 * 2**20
    runs.destroy(job_name)
