"""The names, addresses and paths of an embedded cluster, all derived from its directory.

That way, an incomplete or stopped cluster can always be found again, and clusters never conflict.
"""

import hashlib
from ipaddress import IPv4Network
from pathlib import Path

UPLINKS = IPv4Network("10.77.0.0/16")
"""The range from which each cluster gets a /30, for the two ends of its veth pair."""
PODS = IPv4Network("10.244.0.0/24")
SERVICES = IPv4Network("10.96.0.0/16")
# Pods and services exist only in the node's network namespace, so clusters can share ranges.

API_SERVICE = SERVICES[1]
"""The address of the Service `kubernetes.default`: the first in the range."""
DNS_SERVICE = SERVICES[10]
DNS_DOMAIN = "cluster.local"
API_PORT = 6443
API_LIMIT = (2, 10)
"""Timeouts in seconds for connecting to the API server and for its response."""
PROVISIONER = "slipway.local/directory"
"""The name of the default StorageClass's provisioner, `clusters.embedded.provisioner`."""

RUNTIME_ROOT = Path("/run/slipway")
"""The parent directory for sockets, whose paths are limited to 107 characters."""


class Layout:
    """An embedded cluster's names, addresses and paths; `directory` is an absolute path."""

    def __init__(self, directory: Path, *, internet: bool = False) -> None:
        digest = hashlib.sha256(bytes(directory)).digest()
        self.id = digest.hex()[:8]
        """8 hexadecimal digits that identify this cluster on the machine."""
        self.node = f"slipway-{self.id}"
        """The node's name, which is also the name of its network namespace and its cgroup."""

        # Network
        self.network_namespace = Path("/run/netns") / self.node
        """The file that gives the node's network namespace its name in `ip netns`."""
        slot = int.from_bytes(digest[4:6]) % (UPLINKS.num_addresses // 4)
        self.uplink = IPv4Network((UPLINKS[slot * 4], 30))
        """The /30 network between the host and the node."""
        self.host_address = self.uplink[1]
        self.node_address = self.uplink[2]
        """The address of the veth interface on the node, on which the API server listens."""
        self.host_interface = f"slw{self.id}"
        """The veth interface's name on the host; Linux allows 15 characters."""
        self.internet = internet
        """True if job pods can reach the internet."""
        self.outside = Path(f"{self.network_namespace}-host")
        """The file that names the host's network namespace, for NAT if `internet` is true."""
        self.api_url = f"https://{self.node_address}:{API_PORT}"
        """The API server's URL, which works on the host."""

        # Survives a reboot
        self.directory = directory
        self.pki = directory / "pki"
        self.written_by = directory / "kubernetes"
        """The file that lists the Kubernetes versions that wrote the data in etcd."""
        self.encryption = self.pki / "encryption.yaml"
        """The configuration file for encrypting Secrets at rest, including the key."""
        self.config = directory / "config"
        self.cni = self.config / "cni"
        """The directory that contains containerd's configuration for the pod network."""
        self.logs = directory / "logs"
        """The directory that contains one log per component, and the pods' logs."""
        self.volumes = directory / "volumes"

        # Deleted by a reboot
        self.runtime = RUNTIME_ROOT / self.id
        """The directory for sockets and other files needed only while the cluster is running."""
        self.supervisor_socket = self.runtime / "supervisor.sock"
        self.containerd_socket = self.runtime / "containerd.sock"
        """containerd's socket, which also works on the host."""
        self.containerd_state = self.runtime / "containerd"
        """The directory that is mounted as /run/containerd in the node."""

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def certificate(self, name: str) -> Path:
        """Return the path of the certificate with this name in `pki.requests`."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the path of the private key of the certificate with this name."""
        return self.pki / f"{name}.key"
