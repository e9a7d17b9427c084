"""A stack on the real kind or minikube and a podman of our own, in a network with no way out."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from core import toolchain
from scripts.scratch import Finished, Scratch, end
from tests.engine import checkpoint
from tests.engine.awaiting import COMMAND_SECONDS

_SET_UP_SECONDS = 60 * 60
"""A first one builds Kubernetes' programs, the nodes' image and the trainer's on the way."""
_BUILD = """\
from core.context import Silence
from images.build import kind_node
from images.build.trainer import TRAINER
for image in (kind_node.{node}(), TRAINER):
    image.build(Silence())
"""
_NODES = {"kind": ("KindNode", "workers"), "minikube": ("MinikubeNode", "nodes")}
"""The class of the nodes' image, and the setting that counts the nodes which run jobs."""
SMALL = {
    "workers": 1,
    "cpu": "500m",
    "minAccuracy": 0.1,
    "args": ["--limit-train", "3000", "--limit-test", "500"],
}
"""A job that two ranks train in seconds."""
_MODULES = Path("/lib/modules")
_NET = Path("/proc/sys/net")
_FORWARDING = [_NET / "ipv4" / "ip_forward", _NET / "ipv6" / "conf" / "all" / "forwarding"]
_TABLES = [f"{ip} --table {each}" for ip in ("iptables", "ip6tables") for each in ("nat", "filter")]


@dataclass
class RealCluster:
    """The stack `kind` or `minikube` in a copy of the checkout.

    Args:
        kind: The stack's name, and its cluster's kind.
        scratch: The copy, with a state of its own, so with a podman of its own.
        network: The file that keeps the network namespace in which all commands run.
    """

    kind: str
    scratch: Scratch
    network: Path
    _before: Mapping[str, Any] = field(default_factory=dict)

    def set_up(self) -> None:
        """Get what needs a network, in the machine's own: the tools and the images."""
        build = shlex.quote(_BUILD.format(node=_NODES[self.kind][0]))
        for command in (f"make setup STACK={self.kind}", f".venv/bin/python -c {build}"):
            finished = self.scratch.run(command, _SET_UP_SECONDS)
            assert finished.code == 0, str(finished)

    def declare(self, *, nodes: int, **job: Any) -> None:
        """Write the stack's settings: the nodes for jobs, and what mnist-gloo has."""
        settings = self.scratch.checkout / f"Pulumi.{self.kind}.yaml"
        kept = yaml.safe_load(settings.read_text()) if settings.exists() else {}
        cluster = {"kind": self.kind, "name": self.scratch.name, _NODES[self.kind][1]: nodes}
        config = {"slipway:cluster": cluster, "slipway:jobs": {"mnist-gloo": job}}
        settings.write_text(yaml.safe_dump({**kept, "config": config}))

    def inside(self, command: str) -> str:
        """Return the command that runs `command` in the network with no way out."""
        return f"nsenter --net={self.network} bash -c {shlex.quote(command)}"

    def run(self, command: str) -> Finished:
        """Run `command` as a user would, and fail unless it succeeds."""
        finished = self.scratch.run(self.inside(command), COMMAND_SECONDS)
        assert finished.code == 0, str(finished)
        return finished

    @contextmanager
    def going_up(self) -> Iterator[Callable[[], str]]:
        """Yield what reads the output of `make up` so far; wait for its end, whatever it is."""
        process = self.scratch.start(self.inside(f"make up STACK={self.kind}"))
        try:
            yield self.scratch.output.read_text
            process.wait(COMMAND_SECONDS)
        finally:
            end(process)

    @property
    def podman_files(self) -> Path:
        """Where that podman keeps all that it has."""
        return self.scratch.state_home / "slipway" / "podman"

    def podman(self, arguments: str) -> str:
        """Run that podman and return its standard output."""
        return self._inside(f"{self.podman_files}/bin/podman {arguments}")

    def kubectl(self, arguments: str) -> str:
        """Run kubectl with the stack's kubeconfig and return its standard output."""
        file = self.scratch.directory / "kubeconfig"
        if not file.exists():
            asked = f"pulumi stack output kubeconfig --show-secrets --stack {self.kind}"
            content = self._inside(f'eval "$(make -s env)" && {asked}')
            file.touch(0o600)
            file.write_text(content)
        return self._inside(f"{toolchain.path('kubectl')} --kubeconfig {file} {arguments}")

    def pods(self) -> Mapping[str, Any]:
        """Return the job's pods by name."""
        listing = self.kubectl("--namespace slipway-jobs get pods --output json")
        return {each["metadata"]["name"]: each for each in json.loads(listing)["items"]}

    def uids(self) -> Mapping[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def result(self) -> Mapping[str, Any]:
        """Return the job's result in the stack's outputs."""
        backend = self.scratch.state_home / "slipway" / "pulumi"
        result: Mapping[str, Any] = checkpoint.outputs(backend, self.kind)["jobs"]["mnist-gloo"]
        return result

    def down(self) -> Finished:
        """Run `make down`, and fail if anything of the stack is left in its network or machine."""
        finished = self.run(f"make down STACK={self.kind}")
        (self.scratch.directory / "kubeconfig").unlink(missing_ok=True)
        left = {kind: now for kind, now in self.traces().items() if now != self._before[kind]}
        assert left == {}, f"{left}\n{finished}"
        return finished

    def take_baseline(self) -> None:
        """Remember the network and the machine as they are without the stack."""
        self._before = self.traces()

    def traces(self) -> dict[str, Any]:
        """Return what the nodes change in their network and on the machine."""
        rules = [self._inside(f"{each} --list-rules") for each in _TABLES]
        forwarding = [each for each in _FORWARDING if each.exists()]  # IPv6 may be missing
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return {
            "forwarding in the network": self._inside(shlex.join(["cat", *map(str, forwarding)])),
            "forwarding of the machine": [each.read_text() for each in forwarding],
            "firewall rules": rules,
            "network devices": sorted(self._inside("ls /proc/sys/net/ipv4/conf").split()),
            "modules": _MODULES.exists(),
            "podman's files": self.podman_files.exists(),
            "minikube's files": (Path.home() / ".minikube").exists(),
            "control groups": sorted(map(str, Path("/sys/fs/cgroup").glob("*/kubepods"))),
            "mounts": [line for line in mounts if str(self.scratch.state_home) in line],
            "processes": list(self._processes()),
        }

    def _processes(self) -> Iterator[str]:
        """Yield the command lines of the processes in that network."""
        own = self.network.stat().st_ino
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if (each / "ns" / "net").stat().st_ino == own:
                    yield (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it has ended

    def _inside(self, command: str) -> str:
        finished = subprocess.run(
            ["bash", "-c", self.inside(command)],
            cwd=self.scratch.checkout, env=self.scratch.environment(),
            capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        assert finished.returncode == 0, (command, finished.stdout, finished.stderr)
        return finished.stdout


def assert_well(stack: RealCluster) -> None:
    """Fail unless another `make up` finds everything as declared, and the smoke checks pass."""
    again = stack.run(f"make up STACK={stack.kind}")
    counts = re.search(r"Resources:\n +(.*)\n\n", again.output)
    assert counts is not None, again
    assert re.fullmatch(r"\d+ unchanged", counts[1]), again
    smoke = stack.run(f"make smoke STACK={stack.kind}")
    assert re.search(r"\d\d passed in", smoke.output), smoke
    assert "failed" not in smoke.output, smoke


def assert_a_stopped_node_is_started(
    stack: RealCluster, node: str, repairing: str, nodes: int
) -> None:
    """Stop a node, and fail unless the next `make up` starts it and trains nothing again."""
    before = stack.uids()
    stack.podman(f"stop {node}")
    healed = stack.run(f"make up STACK={stack.kind}")
    assert re.search(f"repairing nodes: {repairing}", healed.text), str(healed)
    ready = [line.split()[1] for line in stack.kubectl("get nodes --no-headers").splitlines()]
    assert ready == ["Ready"] * nodes
    assert stack.uids() == before


@contextmanager
def real_cluster(kind: str, root: Path, nodes: int, **job: Any) -> Iterator[RealCluster]:
    """Yield such a stack, up, its job trained; whatever happens, leave nothing of it behind."""
    scratch = Scratch.copy_of(root)
    network = scratch.directory / "network"
    network.touch()
    subprocess.run(["unshare", f"--net={network}", "ip", "link", "set", "lo", "up"], check=True)
    stack = RealCluster(kind, scratch, network)
    try:
        stack.set_up()
        stack.take_baseline()
        stack.declare(nodes=nodes, **job)
        stack.run(f"make up STACK={kind}")
        yield stack
    finally:
        try:
            stack.down()
        finally:
            subprocess.run(["umount", network], check=True)
            scratch.remove()
