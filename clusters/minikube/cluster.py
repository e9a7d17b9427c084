"""The settings and resources for a minikube cluster (https://minikube.sigs.k8s.io)."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from clusters import operator
from clusters.cli_clusters import cluster as machine
from clusters.cli_clusters.cluster import ClusterName, Mount, PortMapping
from clusters.cluster import Cluster
from clusters.minikube.tool import CONTAINER_DRIVERS
from clusters.nodes import Capacity
from core import tokens
from core.fields import CONFIG, Memory, size, texts
from core.problem import Contradiction, contradiction
from core.validation import Consistent

_text = texts(__file__)
Driver = Annotated[
    Literal["docker", "podman", "kvm2", "qemu2", "virtualbox", "vfkit", "hyperkit", "hyperv"],
    _text("driver"),
]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class MinikubeSettings(Consistent):
    """The settings in `slipway:cluster` for the kind `minikube`.

    Args:
        name: The profile's name; by default the stack's name, or slipway-minikube for the stack
            `minikube`.
        driver: Driver that runs the nodes; by default minikube chooses one.
        cpus: Cores per node.
        memory: Memory per node.
        disk_size: Disk size per node, if the nodes are virtual machines.
        nodes: Number of nodes.
        kubernetes_version: Kubernetes version; by default minikube's default.
        ports: Ports on this machine that are mapped to ports on the nodes.
        mount: A directory on this machine to mount in the nodes; minikube allows only one.
        force: Ignore minikube's warnings, such as the one about running the docker driver as root.
        adopt: Use an existing profile with this name. It is never deleted.
    """

    name: ClusterName
    driver: Driver | None = None
    cpus: Annotated[int, Field(ge=2, le=512)] = 2
    memory: Memory = "6Gi"
    disk_size: Memory = "50Gi"
    nodes: Annotated[int, Field(ge=1, le=50)] = 1
    kubernetes_version: Annotated[str | None, _text("version")] = None
    ports: tuple[PortMapping, ...] = ()
    mount: Mount | None = None
    force: bool = False
    adopt: bool = False

    def contradictions(self) -> Iterator[Contradiction]:
        if self.ports and self.driver not in CONTAINER_DRIVERS:
            text = f"requires a driver that supports ports: {' or '.join(CONTAINER_DRIVERS)}"
            yield contradiction(("ports",), text, "driver")
        if self.mount is not None and self.mount.read_only:
            text = "minikube can't mount read-only; remove this setting, or set it to false"
            yield contradiction(("mount", "readOnly"), text, "mount")


def capacity(settings: MinikubeSettings) -> Capacity:
    """Return each node's capacity for jobs, as if each ran the same system pods as the first."""
    total = Capacity(Decimal(settings.cpus), size(settings.memory), nodes=settings.nodes)
    # The requests of the control plane, one CoreDNS and the network plugin on the first node.
    return total.beside(({"cpu": "850m", "memory": "220Mi"}, operator.REQUESTS))


def inputs(settings: MinikubeSettings) -> dict[str, Any]:
    """Convert settings to the resource's inputs, in the format of minikube's flags. Pure."""
    every = {to_camel(name): value for name, value in vars(settings).items()} | {
        "memory": _megabytes(settings.memory),
        "diskSize": _megabytes(settings.disk_size),
        # In the format of `docker run --publish`, which minikube accepts.
        "ports": [
            f"{each.address}:{each.host}:{each.node}/{each.protocol.lower()}"
            for each in settings.ports
        ],
        "mount": settings.mount and {"host": settings.mount.host, "node": settings.mount.node},
    }
    return {key: value for key, value in every.items() if value not in (None, [])}


def provision(settings: MinikubeSettings) -> Cluster:
    """Declare the profile, its provider, and the operator's images on its nodes."""
    if settings.mount is not None and not settings.adopt:  # An existing profile keeps its mount.
        machine.require({"mount": settings.mount})
    target = {"kind": "minikube", "profile": settings.name}
    return machine.declare("minikube", tokens.MINIKUBE, inputs(settings), target)


def _megabytes(amount: str) -> str:
    """Convert an amount to minikube's unit `mb`, which is 1024 x 1024 bytes."""
    return f"{size(amount) // 2**20}mb"
