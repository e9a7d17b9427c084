"""What the settings say of an Azure Local cluster's machines and network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.azure.fields import CONFIG, LabelKey, LabelValue, Size
from clusters.azure.nodes import NodeTaint
from clusters.azure_local.fields import Address, PoolNodes, Prefix
from clusters.azure_local.sizes import GPUS


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class ControlPlane:
    """The machines of the API server.

    Args:
        nodes: How many; with 3 or 5 one may be lost.
        size: What one is.
        address: Of the API server, for good; of the logical network, and outside of its pool.
            Chosen by AKS unless said.
    """

    # https://learn.microsoft.com/azure/aks/aksarc/scale-requirements
    nodes: Literal[1, 3, 5] = 1
    size: Size = "Standard_A4_v2"
    address: Address | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SystemPool:
    """The nodes of the cluster's own pods, of the operator, and of jobs without GPUs."""

    size: Size = "Standard_D8s_v3"
    nodes: PoolNodes = 2


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class GpuNodes:
    """Nodes with GPUs.

    Args:
        size: What one is.
        gpus_per_node: `nvidia.com/gpu` of one; only for a size that is not documented.
        min_nodes: There are never fewer; one at least, for there are no empty pools here.
        max_nodes: There are never more; with more than `min_nodes` the pool grows and shrinks.
        labels: Besides Slipway's own.
        taints: That keep other pods off.
    """

    size: Size
    gpus_per_node: Annotated[int, Field(ge=1, le=16)] | None = None
    min_nodes: PoolNodes = 1
    max_nodes: PoolNodes = 1
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = (NodeTaint(key="sku", value="gpu"),)

    @property
    def per_node(self) -> int:
        """`nvidia.com/gpu` of one node."""
        return GPUS[self.size] if self.gpus_per_node is None else self.gpus_per_node

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of its nodes: Slipway's own, which no other nodes have, and the rest."""
        return {"slipway.dev/pool": "gpu", **self.labels}

    @property
    def grows(self) -> bool:
        """Whether a job that finds no node has one made."""
        return self.max_nodes > self.min_nodes


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class LogicalNetwork:
    """A network for the cluster's machines that the stack makes. Its addresses are static.

    AKS on Azure Local takes no other:
    https://learn.microsoft.com/azure/aks/aksarc/aks-hci-network-system-requirements

    Args:
        vm_switch: The virtual switch of the hosts that it is on: `Get-VMSwitch`.
        prefix: Its addresses.
        gateway: One of them.
        dns_servers: They must resolve the name of the Azure Local instance.
        pool_start: The first address that machines may have.
        pool_end: The last.
        vlan: Its number; 0 for none.
    """

    vm_switch: Annotated[str, Field(min_length=1, description="a virtual switch's name")]
    prefix: Prefix
    gateway: Address
    dns_servers: Annotated[tuple[Address, ...], Field(min_length=1)]
    pool_start: Address
    pool_end: Address
    vlan: Annotated[int, Field(ge=0, le=4094)] = 0
