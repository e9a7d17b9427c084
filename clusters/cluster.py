"""What the rest of Slipway knows of a cluster, whatever its kind.

A kind is one module, named in `clusters.CLUSTERS`, that has what `KindModule` lists. It is
imported only when a stack asks for that kind, so what only it needs is loaded only then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import pulumi

from clusters.capacity import Capacity
from clusters.pools import GpuPool, NodePool
from core.paths import use_extra

if TYPE_CHECKING:  # the local provider imports this module, too, and declares nothing
    import pulumi_kubernetes

JOBS = "slipway-jobs"
"""The namespace that jobs run in unless somebody has one for them."""
JOB_ACCOUNT = "slipway-job"
"""What a job's pods run as: it has no rights, and its token is not mounted."""


@dataclass(frozen=True)
class ExistingOperator:
    """A training operator that is there already, and that is somebody else's.

    Args:
        version: Such as `1.9.2`; None when it can't be told.
        namespace: Of its Deployment; None when that can't be seen.
        deployment: Its Deployment's name; None likewise.
        judges: Whether it has a webhook for PyTorchJobs, as those since 1.8 have.
    """

    version: str | None = None
    namespace: str | None = None
    deployment: str | None = None
    judges: bool = True


@dataclass(frozen=True)
class JobIdentity:
    """Who jobs are to the cloud that the cluster is in, so that they need no key of its services.

    Args:
        annotations: Of the account that they run as.
        labels: Of their pods.
    """

    annotations: Mapping[str, pulumi.Input[str]]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class PullSecret:
    """With what nodes pull images from a private registry.

    Args:
        name: Of the Secret, in each namespace whose pods need it.
        content: A docker config.json with that registry alone. A secret wherever it goes.
    """

    name: str
    content: str = field(repr=False)


@dataclass(frozen=True)
class Cluster:
    """A cluster that is there, and how to work with it. Nobody later asks for its kind.

    Args:
        kind: Its key in `clusters.CLUSTERS`, for messages alone.
        provider: Every Kubernetes object of the stack is made through it, so it depends on whatever
            has to be there before them.
        kubeconfig: YAML with what it takes to connect. Always a secret.
        image_target: How an image gets in, as the `target` of `slipway:images:Image`. Its `kind`,
            and what names of images follow from, are plain; the rest may come later.
        images: References that the cluster can surely run, by what is in them:
            `training-operator` and `tcp-wait`.
        gpus: Its nodes with GPUs; None without.
        namespace: Where jobs run.
        own_namespace: Whether the stack makes it; otherwise it is there, and stays.
        operator: The training operator that is there already; None where the stack installs one.
        identity: Who jobs are to the cloud around it; None where they are nobody.
        mirrors: What stands in for images of other registries, by the names that jobs call them.
        pull_secret: With what nodes pull images; None where they need nothing.
    """

    kind: str
    provider: "pulumi_kubernetes.Provider"
    kubeconfig: pulumi.Output[str] = field(repr=False)
    image_target: Mapping[str, Any]
    images: Mapping[str, str]
    gpus: GpuPool | None = None
    namespace: str = JOBS
    own_namespace: bool = True
    operator: ExistingOperator | None = None
    identity: JobIdentity | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)
    pull_secret: PullSecret | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the stack's outputs tell of it: where jobs run, and what is the stack's own."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "ownNamespace": self.own_namespace,
            "ownOperator": self.operator is None,
        }


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

    def remains(self, settings: Any, stack: str, /) -> Remains:
        """Look for what is left of the stack once it has been destroyed.

        `stack` is what it is called in the marks of `core.manifests`.

        Where the cluster goes with the stack that is anything of the cluster; where it is somebody
        else's, whatever bears Slipway's labels in it.
        """


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster.

    Args:
        module: The name of its module.
        extra: The extra of pyproject.toml that it needs to provision a cluster; None without.
    """

    module: str
    extra: str | None = None

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
        """Declare such a cluster in the running Pulumi program and return it.

        Raises:
            pulumi.RunError: The packages that it needs are not installed.
        """
        if self.extra is not None:
            use_extra(self.extra)
        try:
            return self._loaded.provision(settings)
        except ModuleNotFoundError as error:
            raise pulumi.RunError(
                f"The Python package {error.name} is not installed. "
                f"Run `make setup STACK={pulumi.get_stack()}`, then try again."
            ) from error

    def remains(self, settings: Any, stack: str) -> Remains:
        """Return what is left of such a stack once it has been destroyed."""
        return self._loaded.remains(settings, stack)
