"""Faults that are brought about on purpose, in an embedded cluster of the drill's own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clusters.embedded import isolation, supervisor
from core.manifests import KEPT_CLAIM
from tests.engine.embedded_cluster import TestCluster
from tests.engine.pytorchjob_stack import Jobs

_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Place:
    """The cluster, and a job in it that a fault is meant for."""

    cluster: TestCluster
    jobs: Jobs
    job: str

    def await_moment(self, moment: str, limit: float, is_over: Callable[[], bool]) -> bool:
        """Wait until a rank is at a moment of its program, or the job's pods are made."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and not is_over():
            if moment in self._moments(moment):
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def _moments(self, wanted: str) -> Iterator[str]:
        if wanted == "created" and self.jobs.items("pods", self.job):
            yield wanted
        for pid in self.ranks():
            with suppress(OSError):
                yield Path(f"/proc/{pid}/root/work/moment").read_text()

    def ranks(self) -> dict[int, str]:
        """Return the process of each rank's program, and the rank."""
        return {
            pid: environment["RANK"]
            for pid, words, environment in self._processes()
            if environment.get("SLIPWAY_JOB") == self.job
            and any(word.endswith("/program.py") for word in words)
            and "slipway_trainer.launch" not in words
        }

    def rank(self, number: int) -> int:
        return min(pid for pid, rank in self.ranks().items() if rank == str(number))

    def program(self, part: str) -> int:
        """Return the oldest process in the cluster whose command line has this part."""
        return min(pid for pid, words, _ in self._processes() if part in " ".join(words))

    def _processes(self) -> Iterator[tuple[int, list[str], dict[str, str]]]:
        for pid in isolation.processes(self.cluster.layout):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                text = Path(f"/proc/{pid}/environ").read_text(errors="replace")
                pairs = (each.partition("=")[::2] for each in text.split("\0"))
                yield pid, words, dict(pairs)


Fault = Callable[[Place], None]


def killed(number: int) -> Fault:
    return lambda place: os.kill(place.rank(number), signal.SIGKILL)


def stopped(number: int) -> Fault:
    return lambda place: os.kill(place.rank(number), signal.SIGSTOP)


def component_killed(name: str) -> Fault:
    return lambda place: place.cluster.kill(place.cluster.processes()[name])


def program_killed(part: str) -> Fault:
    return lambda place: os.kill(place.program(part), signal.SIGKILL)


def program_paused(part: str, seconds: float) -> Fault:
    """Stop a program for some seconds, as if it were away."""

    def fault(place: Place) -> None:
        pid = place.program(part)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    return fault


def pod_deleted(replica: str) -> Fault:
    def fault(place: Place) -> None:
        place.jobs.kubectl("delete", "pod", f"{place.job}-{replica}", "--wait=false")

    return fault


def network_dropped(number: int, seconds: float) -> Fault:
    """Drop whatever comes to a pod or leaves it, in its own network namespace."""
    chains = (f"add chain inet drill {way} {{ type filter hook {way} priority -300; policy drop; }}"
              for way in ("input", "output"))  # fmt: skip
    added = "; ".join(["add table inet drill", *chains])

    def fault(place: Place) -> None:
        inside = ["nsenter", f"--net=/proc/{place.rank(number)}/ns/net", "nft"]
        subprocess.run([*inside, added], check=True)
        time.sleep(seconds)
        subprocess.run([*inside, "delete table inet drill"], check=True)

    return fault


def _node(place: Place) -> list[str]:
    return ["nsenter", "--target", str(supervisor.pid(place.cluster.layout)), "--mount"]


def volume_filled(place: Place) -> None:
    """Mount a file system of 8 MiB where the volume for kept files is, before its pods start."""
    claim = place.cluster.get("persistentvolumeclaims", "--namespace=slipway-jobs", KEPT_CLAIM)
    volume = place.cluster.get("persistentvolumes", claim["spec"]["volumeName"])["spec"]
    directory = (volume.get("hostPath") or volume.get("local"))["path"]
    made = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0777", "drill", directory]
    subprocess.run([*_node(place), *made], check=True)


def volume_emptied(place: Place) -> None:
    text = Path(f"/proc/{supervisor.pid(place.cluster.layout)}/mounts").read_text()
    for line in text.splitlines():
        if line.startswith("drill "):
            left = [*_node(place), "umount", "--lazy", line.split()[1]]
            subprocess.run(left, check=False, capture_output=True)  # a bind may go with it
