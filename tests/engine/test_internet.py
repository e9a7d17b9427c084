"""The way to the internet, between network namespaces of the tests: nothing leaves the machine.

One namespace plays the machine and another one all that is behind it: a public address, a metadata
service, the network of an office. The node's network is made in the former, as `up` makes it.
"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusters.embedded import host, network, pki
from clusters.embedded.components import components
from clusters.embedded.layout import Layout
from core.paths import CHECKOUT
from core.process import CommandFailed, run
from tests.engine.awaiting import await_true

PUBLIC, RESOLVER, PORT = "9.9.9.9", "127.0.0.53", 8888
CLOSED = {
    "a metadata service": "169.254.169.254",
    "Azure's": "168.63.129.16",
    "an office's network": "10.1.2.3",
    "the machine's own private network": "192.168.7.1",
    "the machine's own public network": "8.8.4.1",
    "another machine of that": "8.8.4.9",
    "the machine, by its private address": "192.168.7.2",
    "the machine, by its public address": "8.8.4.2",
    "the machine, as slirp4netns calls it": "10.0.2.2",
}
JOB, OTHER = "10.244.0.5", "10.244.0.6"
_SERVE = """
import socket, sys, threading
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("0.0.0.0", 53))
def answer():
    while True:
        asked, address = names.recvfrom(512)
        names.sendto(b"answered " + asked, address)
threading.Thread(target=answer, daemon=True).start()
print("ready", flush=True)
while True:
    server.accept()[0].close()
"""
_CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1.5)
"""
_ASK = """
import socket
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(1.5)
asking.sendto(b"a name", ("10.0.2.3", 53))
assert asking.recv(512) == b"answered a name"
"""
_NETWORK = """
import sys
from pathlib import Path
from clusters.embedded import network
from clusters.embedded.layout import Layout
layout = Layout(Path(sys.argv[1]), internet=sys.argv[2] == "True")
print(getattr(network, sys.argv[3])(layout))
"""


def inside(namespace: str) -> tuple[str, ...]:
    """Return what to put in front of a command to run it in a network namespace."""
    return (host.path("nsenter"), f"--net=/run/netns/{namespace}", "--")


class Machine:
    """A pretended machine with the node's network in it, and two pods."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.layout = Layout(directory, internet=True)
        pki.ensure(self.layout)
        self._stack = stack
        mark = self.layout.id
        self.machine, self.world = f"test-machine-{mark}", f"test-world-{mark}"
        self.pods = {JOB: f"test-job-{mark}", OTHER: f"test-other-{mark}"}
        for name in (self.machine, self.world, *self.pods.values()):
            self.ip("netns", "add", name)
            stack.callback(self.ip, "netns", "delete", name)
            self.ip("-netns", name, "link", "set", "lo", "up")
        for link, mine, peers in (
            ("wan", "8.8.4.2/24", ("8.8.4.1/24", "8.8.4.9/24")),
            ("lan", "192.168.7.2/24", ("192.168.7.1/24",)),
        ):
            self.join(self.machine, link, mine, self.world, link, peers)
        self.ip("-netns", self.machine, "route", "add", "default", "via", "8.8.4.1")
        for address in (PUBLIC, *CLOSED.values()):
            if address not in {"8.8.4.2", "192.168.7.2", "10.0.2.2"}:
                self.ip("-netns", self.world, "address", "add", f"{address}/32", "dev", "lo")
        for namespace in (self.machine, self.world):
            self.start(namespace, sys.executable, "-c", _SERVE, str(PORT))

    def ip(self, *arguments: str) -> str:
        return run(host.path("ip"), *arguments)

    def join(
        self, one: str, link: str, mine: str, other: str, peer: str, peers: tuple[str, ...]
    ) -> None:
        """Put a link between two namespaces."""
        self.ip(
            "-netns", one, "link", "add", link, "type", "veth", "peer", "name", peer, "netns", other
        )
        for namespace, name, addresses in ((one, link, (mine,)), (other, peer, peers)):
            for address in addresses:
                self.ip("-netns", namespace, "address", "add", address, "dev", name)
            self.ip("-netns", namespace, "link", "set", name, "up")

    def start(self, namespace: str, *command: str) -> "subprocess.Popen[str]":
        """Run a program until the end of the tests, from its first line on."""
        command = (*inside(namespace), *command)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def network(self, what: str, *, internet: bool) -> str:
        """Have a program of the machine's see to the node's network."""
        call = (sys.executable, "-c", _NETWORK, str(self.layout.directory), str(internet), what)
        return run(*inside(self.machine), *call, cwd=CHECKOUT).strip()

    def open_way(self) -> None:
        """Start what node.yaml has for it, where the node's resolv.conf hides the machine's."""
        (command,) = (each.command for each in components(self.layout) if each.name == "internet")
        resolv = self.layout.directory / "resolv.conf"
        resolv.write_text(f"nameserver {RESOLVER}\n")
        node = self.layout.directory / "node-resolv.conf"
        node.write_text("nameserver 10.96.0.10\n")
        mounts = "".join(f"mount --bind {file} /etc/resolv.conf && " for file in (resolv, node))
        private = ("unshare", "--mount", "--", "sh", "-c", f'{mounts} exec "$@" 2>&1', "sh")
        self.start(self.layout.node, *private, *command)
        route = ("-netns", self.layout.node, "route", "show", "default")
        await_true(lambda: "internet" in self.ip(*route), 5)

    def add_pods(self) -> None:
        """Join pods to the node as the plugin ptp does, and let one of them be a job's."""
        node, gateway = self.layout.node, "10.244.0.1/32"
        for number, (address, pod) in enumerate(self.pods.items()):
            self.join(node, f"veth{number}", gateway, pod, "eth0", (f"{address}/32",))
            self.ip("-netns", node, "route", "add", f"{address}/32", "dev", f"veth{number}")
            self.ip("-netns", pod, "route", "add", "10.244.0.1", "dev", "eth0")
            self.ip("-netns", pod, "route", "add", "default", "via", "10.244.0.1")
        run(*network.enter(self.layout), "sysctl", "--quiet", "net.ipv4.ip_forward=1")
        self.name_job()

    def name_job(self) -> None:
        """Do what gateway.py does."""
        element = ("add", "element", "inet", "slipway", "jobs", f"{{ {JOB} }}")
        run(*network.enter(self.layout), host.path("nft"), *element)

    def reaches(self, namespace: str, address: str) -> bool:
        return self.runs(namespace, _CONNECT, address, str(PORT))

    def runs(self, namespace: str, code: str, *arguments: str) -> bool:
        try:
            run(*inside(namespace), sys.executable, "-c", code, *arguments)
        except CommandFailed:
            return False
        return True


@pytest.fixture(scope="module")
def machine(
    internet_tool: None,  # noqa: ARG001 - it is needed, not used
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    """One with the internet open for a job's pod, and what `make setup` installs for that."""
    with ExitStack() as stack:
        made = Machine(tmp_path_factory.mktemp("internet") / "cluster", stack)
        stack.callback(made.network, "remove", internet=False)
        made.network("ensure", internet=True)
        made.add_pods()
        made.open_way()
        yield made
    left = [path.name for path in Path("/run/netns").iterdir() if made.layout.id in path.name]
    assert left == []


def test_a_jobs_pod_reaches_the_internet_and_no_network_of_the_machine(machine: Machine) -> None:
    """What it does not reach is there: the machine itself reaches it."""
    job = machine.pods[JOB]
    assert machine.reaches(job, PUBLIC)
    with ThreadPoolExecutor(4) as pool:
        there = pool.map(lambda at: machine.reaches(machine.machine, at), CLOSED.values())
        tried = pool.map(lambda at: machine.reaches(job, at), CLOSED.values())
        reached = dict(zip(CLOSED, tried, strict=True))
    assert sum(there) == len(CLOSED) - 1, "all but slirp4netns' own"
    assert reached == dict.fromkeys(CLOSED, False)
    # Neither do the node or another pod reach the internet.
    assert not machine.reaches(machine.layout.node, PUBLIC)
    assert not machine.reaches(machine.pods[OTHER], PUBLIC)


def test_coredns_asks_the_machines_resolver_and_a_job_does_not(machine: Machine) -> None:
    """A resolver on the machine's loopback, as systemd-resolved is one."""
    assert machine.runs(machine.pods[OTHER], _ASK)
    assert not machine.runs(machine.pods[JOB], _ASK)


def test_the_machine_forwards_nothing_and_has_no_rule(machine: Machine) -> None:
    here = inside(machine.machine)
    assert run(*here, host.path("nft"), "list", "ruleset").strip() == ""
    assert run(*here, "sysctl", "--values", "net.ipv4.ip_forward").strip() == "0"


def test_another_network_of_the_machines_is_seen_as_a_change(machine: Machine) -> None:
    assert machine.network("problem", internet=True) == "None"
    added = ("-netns", machine.machine, "route", "add", "9.9.9.0/24", "via", "8.8.4.9")
    machine.ip(*added)
    try:
        assert machine.network("problem", internet=True) == "the firewall rules have changed"
    finally:
        machine.ip(*added[:3], "delete", *added[4:])


def test_it_is_closed_and_opened_in_place(machine: Machine) -> None:
    machine.network("ensure", internet=False)
    assert not machine.reaches(machine.pods[JOB], PUBLIC), "though slirp4netns still runs"
    machine.network("ensure", internet=True)
    assert not machine.reaches(machine.pods[JOB], PUBLIC), "until gateway.py has looked"
    machine.name_job()
    assert machine.reaches(machine.pods[JOB], PUBLIC)
