"""Where everything of one embedded cluster is: names, addresses and paths, all from its directory.

Nothing is looked up or stored: the same directory always gives the same cluster, so a cluster
that was half made, stopped or lost its network is found again, and two clusters never meet.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

UPLINKS = IPv4Network("10.77.0.0/16")
"""Each cluster takes one /30 of it: the host's end of the veth pair, and the node."""
PODS = IPv4Network("10.244.0.0/24")
SERVICES = IPv4Network("10.96.0.0/16")
# Pods and services exist inside the node's network namespace only, so clusters may share ranges.

API_SERVICE = SERVICES[1]
"""The API server gives `kubernetes.default` the first address of the range."""
DNS_SERVICE = SERVICES[10]
DNS_DOMAIN = "cluster.local"
API_PORT = 6443

RUNTIME_ROOT = Path("/run/slipway")
"""For sockets, whose paths have at most 107 characters: a cluster's directory may be deep."""


@dataclass(frozen=True)
class Layout:
    """One embedded cluster, named by the directory that holds its data.

    Args:
        directory: Holds everything that must survive a reboot; absolute.
    """

    directory: Path

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(bytes(self.directory)).digest()

    @property
    def id(self) -> str:
        """8 hexadecimal digits that identify this cluster on the machine."""
        return self._digest.hex()[:8]

    @property
    def node(self) -> str:
        """The node's name, which is also the name of its network namespace and its cgroup."""
        return f"slipway-{self.id}"

    # Network

    @property
    def network_namespace(self) -> Path:
        """Where `ip netns` keeps the name of the node's network namespace."""
        return Path("/run/netns") / self.node

    @property
    def uplink(self) -> IPv4Network:
        """The /30 between the host and the node."""
        slot = int.from_bytes(self._digest[4:6]) % (UPLINKS.num_addresses // 4)
        return IPv4Network((UPLINKS[slot * 4], 30))

    @property
    def host_address(self) -> IPv4Address:
        """The host's end of the veth pair."""
        return self.uplink[1]

    @property
    def node_address(self) -> IPv4Address:
        """The node's end, where the API server listens."""
        return self.uplink[2]

    @property
    def host_interface(self) -> str:
        """The veth's name on the host. Linux allows 15 characters."""
        return f"slw{self.id}"

    @property
    def api_url(self) -> str:
        """The API server as the host reaches it."""
        return f"https://{self.node_address}:{API_PORT}"

    # Survives a reboot

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.directory / "pki"

    @property
    def config(self) -> Path:
        """Rendered configuration of every component."""
        return self.directory / "config"

    @property
    def cni(self) -> Path:
        """Where containerd looks for the pods' network."""
        return self.config / "cni"

    @property
    def logs(self) -> Path:
        """One log a component, and the pods' logs."""
        return self.directory / "logs"

    @property
    def volumes(self) -> Path:
        """One directory for each persistent volume."""
        return self.directory / "volumes"

    # Gone with a reboot

    @property
    def runtime(self) -> Path:
        """Sockets and what only matters while the cluster runs."""
        return RUNTIME_ROOT / self.id

    @property
    def supervisor_socket(self) -> Path:
        """Where supervisord answers."""
        return self.runtime / "supervisor.sock"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd answers, from the host too."""
        return self.runtime / "containerd.sock"

    @property
    def containerd_state(self) -> Path:
        """Seen as /run/containerd from inside."""
        return self.runtime / "containerd"

    # Helpers

    def log(self, component: str) -> Path:
        """The log of one component."""
        return self.logs / f"{component}.log"

    def certificate(self, name: str) -> Path:
        """A certificate by its name in `pki.CERTIFICATES`."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The private key of that certificate."""
        return self.pki / f"{name}.key"
