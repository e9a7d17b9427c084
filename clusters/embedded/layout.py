"""Names, addresses and paths of an embedded cluster, all derived from its directory.

This way an incomplete or stopped cluster can always be found again, and clusters never conflict.
"""

import hashlib
from ipaddress import IPv4Network
from pathlib import Path

UPLINKS = IPv4Network("10.77.0.0/16")
"""Each cluster uses one /30 from it, for the host's and the node's ends of the veth pair."""
PODS = IPv4Network("10.244.0.0/24")
SERVICES = IPv4Network("10.96.0.0/16")
# Pods and services only exist in the node's network namespace, so clusters may share ranges.

API_SERVICE = SERVICES[1]
"""The API server assigns the first address in the range to `kubernetes.default`."""
DNS_SERVICE = SERVICES[10]
DNS_DOMAIN = "cluster.local"
API_PORT = 6443
API_LIMIT = (2, 10)
"""Time limits in seconds for connecting to the API server and for its response."""
PROVISIONER = "slipway.local/directory"
"""The provisioner of the default StorageClass: `clusters.embedded.provisioner`."""

RUNTIME_ROOT = Path("/run/slipway")
"""The parent directory for sockets, whose paths may be at most 107 characters long."""


class Layout:
    """One embedded cluster, given by the absolute path of its directory for persistent files."""

    def __init__(self, directory: Path, *, internet: bool = False) -> None:
        digest = hashlib.sha256(bytes(directory)).digest()
        self.id = digest.hex()[:8]
        """8 hexadecimal digits that identify this cluster on the machine."""
        self.node = f"slipway-{self.id}"
        """The node's name, which is also the name of its network namespace and its cgroup."""

        # Network
        self.network_namespace = Path("/run/netns") / self.node
        """The file by which `ip netns` names the node's network namespace."""
        slot = int.from_bytes(digest[4:6]) % (UPLINKS.num_addresses // 4)
        self.uplink = IPv4Network((UPLINKS[slot * 4], 30))
        """The /30 between the host and the node."""
        self.host_address = self.uplink[1]
        self.node_address = self.uplink[2]
        """The node's end, where the API server listens."""
        self.host_interface = f"slw{self.id}"
        """The veth's name on the host. Linux allows 15 characters."""
        self.internet = internet
        """True if the jobs' pods can reach the internet."""
        self.outside = Path(f"{self.network_namespace}-host")
        """If so, the file that names the host's network namespace, which does the NAT."""
        self.api_url = f"https://{self.node_address}:{API_PORT}"
        """The API server's URL on the host."""

        # Survives a reboot
        self.directory = directory
        self.pki = directory / "pki"
        self.written_by = directory / "kubernetes"
        """The file that lists the Kubernetes versions that wrote the data in etcd."""
        self.encryption = self.pki / "encryption.yaml"
        """The configuration for encrypting secrets at rest, including the key."""
        self.config = directory / "config"
        self.cni = self.config / "cni"
        """containerd's configuration for the pods' network."""
        self.logs = directory / "logs"
        """One log per component, and the pods' logs."""
        self.volumes = directory / "volumes"

        # Deleted by a reboot
        self.runtime = RUNTIME_ROOT / self.id
        """Sockets and other files that are needed only while the cluster is running."""
        self.supervisor_socket = self.runtime / "supervisor.sock"
        self.containerd_socket = self.runtime / "containerd.sock"
        """containerd's socket, which also works on the host."""
        self.containerd_state = self.runtime / "containerd"
        """Mounted as /run/containerd in the node."""

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def certificate(self, name: str) -> Path:
        """Return the file for the certificate with this name in `pki.requests`."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the file for that certificate's private key."""
        return self.pki / f"{name}.key"
