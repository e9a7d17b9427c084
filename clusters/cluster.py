"""What the rest of Slipway knows of a cluster, whatever its kind.

A kind is one module, named in `clusters.CLUSTERS`, that has what `KindModule` lists. It is
imported only when a stack asks for that kind, so what only it needs is loaded only then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, cast

import pulumi
import pulumi_kubernetes

from clusters.capacity import Capacity
from clusters.pools import GpuPool, NodePool


@dataclass(frozen=True)
class Cluster:
    """A cluster that is there, and how to work with it. Nobody later asks for its kind.

    Args:
        kind: Its key in `clusters.CLUSTERS`, for messages alone.
        provider: Every Kubernetes object of the stack is made through it.
        kubeconfig: YAML with what it takes to connect. Always a secret.
        image_target: How an image gets in, as the `target` of `slipway:images:Image`.
        images: References that the cluster can surely run, by what is in them:
            `training-operator` and `tcp-wait`.
        gpus: Its nodes with GPUs; None without.
        needs: What has to be there before any Kubernetes object of the stack.
    """

    kind: str
    provider: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str] = field(repr=False)
    image_target: pulumi.Input[Mapping[str, Any]]
    images: Mapping[str, str]
    gpus: GpuPool | None = None
    needs: Sequence[pulumi.Resource] = ()


Remains = Mapping[str, Sequence[str]]
"""What was looked for, in the plural, and each thing that was found, with how to remove it."""


class KindModule(Protocol):
    """What a kind's module has."""

    Settings: type[Any]
    """A frozen dataclass: what `slipway:cluster` may say for this kind, besides `kind` itself.
    A field `name` without a value is filled with the stack's name."""

    def gpus(self, settings: Any, /) -> GpuPool | None:
        """Return `Cluster.gpus` of such a cluster without looking at one."""

    def pools(self, settings: Any, /) -> Sequence[NodePool]:
        """Return what somebody is paid for by the hour; nothing where that is nobody."""

    def capacity(self, settings: Any, /) -> Capacity | None:
        """Return what such a cluster has for jobs; None when that can't be told beforehand."""

    def provision(self, settings: Any, /) -> Cluster:
        """Declare the cluster's resources in the running Pulumi program."""

    def remains(self, settings: Any, /) -> Remains:
        """Look for what is left of the stack once it has been destroyed.

        Where the cluster goes with the stack that is anything of the cluster; where it is somebody
        else's, whatever bears Slipway's labels in it.
        """


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster by the name of its module."""

    module: str

    @cached_property
    def _loaded(self) -> KindModule:
        return cast("KindModule", import_module(self.module))

    @property
    def settings(self) -> type[Any]:
        """The frozen dataclass of this kind's settings."""
        return self._loaded.Settings

    def gpus(self, settings: Any) -> GpuPool | None:
        """Return the nodes with GPUs of such a cluster; None without."""
        return self._loaded.gpus(settings)

    def pools(self, settings: Any) -> Sequence[NodePool]:
        """Return what somebody is paid for by the hour."""
        return self._loaded.pools(settings)

    def capacity(self, settings: Any) -> Capacity | None:
        """Return what such a cluster has for jobs; None when that can't be told beforehand."""
        return self._loaded.capacity(settings)

    def provision(self, settings: Any) -> Cluster:
        """Declare such a cluster in the running Pulumi program and return it."""
        return self._loaded.provision(settings)

    def remains(self, settings: Any) -> Remains:
        """Return what is left of such a stack once it has been destroyed."""
        return self._loaded.remains(settings)
