"""Names, addresses and paths of an embedded cluster: its directory alone decides on all of them.

So one that was half made, stopped or lost its network is found again, and two never meet.
"""

import hashlib
from ipaddress import IPv4Network
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
API_LIMIT = (2, 10)
"""Seconds to connect to the API server, and for its answer."""
PROVISIONER = "slipway.local/directory"
"""Serves the default StorageClass: `clusters.embedded.provisioner`."""

RUNTIME_ROOT = Path("/run/slipway")
"""For sockets, whose paths have at most 107 characters: a cluster's directory may be deep."""


class Layout:
    """One embedded cluster, named by the absolute directory of what must survive a reboot."""

    def __init__(self, directory: Path, *, internet: bool = False) -> None:
        digest = hashlib.sha256(bytes(directory)).digest()
        self.id = digest.hex()[:8]
        """8 hexadecimal digits that identify this cluster on the machine."""
        self.node = f"slipway-{self.id}"
        """The node's name, which is also the name of its network namespace and its cgroup."""

        # Network
        self.network_namespace = Path("/run/netns") / self.node
        """Where `ip netns` keeps the name of the node's network namespace."""
        slot = int.from_bytes(digest[4:6]) % (UPLINKS.num_addresses // 4)
        self.uplink = IPv4Network((UPLINKS[slot * 4], 30))
        """The /30 between the host and the node."""
        self.host_address = self.uplink[1]
        self.node_address = self.uplink[2]
        """The node's end, where the API server listens."""
        self.host_interface = f"slw{self.id}"
        """The veth's name on the host. Linux allows 15 characters."""
        self.internet = internet
        """Whether the jobs' pods reach the internet."""
        self.outside = Path(f"{self.network_namespace}-host")
        """Then that of the host's own network namespace, where its NAT is."""
        self.api_url = f"https://{self.node_address}:{API_PORT}"
        """The API server as the host reaches it."""

        # Survives a reboot
        self.directory = directory
        self.pki = directory / "pki"
        self.written_by = directory / "kubernetes"
        """Which versions of Kubernetes have written the data in etcd."""
        self.encryption = self.pki / "encryption.yaml"
        """How the API server encrypts secrets at rest; holds the key."""
        self.config = directory / "config"
        self.cni = self.config / "cni"
        """Where containerd looks for the pods' network."""
        self.logs = directory / "logs"
        """One log a component, and the pods' logs."""
        self.volumes = directory / "volumes"

        # Gone with a reboot
        self.runtime = RUNTIME_ROOT / self.id
        """Sockets and what only matters while the cluster runs."""
        self.supervisor_socket = self.runtime / "supervisor.sock"
        self.containerd_socket = self.runtime / "containerd.sock"
        """Where containerd answers, from the host too."""
        self.containerd_state = self.runtime / "containerd"
        """Seen as /run/containerd from inside."""

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def certificate(self, name: str) -> Path:
        """A certificate by its name in `pki.requests`."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The private key of that certificate."""
        return self.pki / f"{name}.key"
