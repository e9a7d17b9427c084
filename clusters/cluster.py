"""What the rest of Slipway knows of a cluster: each kind's folder exports one `Kind`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.handler import Lazy
from core.paths import state_dir, use_extra

if TYPE_CHECKING:  # the import is slow, and the facts about a kind do not need it
    import pulumi
    import pulumi_kubernetes

    from clusters.cloud_reports import RefusedPulls
    from clusters.nodes import Capacity, GpuPool, NodePool
    from core.manifests import Manifest

JOBS = "slipway-jobs"
"""The namespace that jobs run in by default."""
JOB_ACCOUNT = "slipway-job"
"""What a job's pods run as: it has no rights, and its token is not mounted."""
REGISTRY_LOGIN = "slipway-registry"
"""The Secret with `Cluster.pull_secret`, in each namespace whose pods need it."""
ONE_AT_A_TIME = "a volume of the default StorageClass can be used on one of them at a time"
"""Of several nodes: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes"""


@dataclass(frozen=True)
class JobIdentity:
    """Who jobs are to the cloud around the cluster, so that they need no key of its services."""

    annotations: Mapping[str, pulumi.Input[str]]
    """Of the account that they run as."""
    labels: Mapping[str, str]
    """Of their pods."""


@dataclass(frozen=True)
class ExistingOperator:
    """A training operator that another party has installed in the cluster.

    Args:
        version: Such as `1.9.2`; None when it is unknown.
        namespace: Of its Deployment; None when that can't be seen.
        deployment: Its Deployment's name; None likewise.
        judges: Whether it has a webhook for PyTorchJobs, as those since 1.8 have.
    """

    version: str | None = None
    namespace: str | None = None
    deployment: str | None = None
    judges: bool = True


@dataclass(frozen=True)
class Cluster:
    """An existing cluster, and how to work with it. Nothing that uses it depends on its kind.

    Args:
        kind: Its key in `clusters.kinds.CLUSTERS`, for messages alone.
        provider: Makes every Kubernetes object, so it depends on what has to be there before.
        kubeconfig: YAML with what it takes to connect. Always a secret.
        image_target: How an image gets in, as the `target` of `slipway:images:Image`. Its `kind`,
            and what names of images follow from, are plain; the rest may be an output.
        images: References that the cluster can surely run, by what is in them:
            `training-operator` and `tcp-wait`.
        gpus: Its nodes with GPUs; None without.
        namespace: Where jobs run.
        own_namespace: Whether the stack makes it; otherwise it exists already, and stays.
        operator: The existing training operator; None where the stack installs one.
        identity: Who jobs are to the cloud around it; None where they have no identity.
        mirrors: What stands in for images of other registries, by the names that jobs call them.
        pull_secret: A docker config.json with which nodes pull images, a secret wherever it goes;
            None where they need nothing.
        objects: Of the cluster's own, which the stack has to make in it.
        store: A URL that fsspec knows, below which jobs may keep files; None where the cloud around
            it has no such store.
        no_volume: Why jobs can't keep files on a volume of its default StorageClass; else empty.
        refused_pulls: Which pulls that its registry refuses are waited for; None for none.
    """

    kind: str
    provider: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str] = field(repr=False)
    image_target: Mapping[str, Any]
    images: Mapping[str, str]
    gpus: GpuPool | None = None
    namespace: str = JOBS
    own_namespace: bool = True
    operator: ExistingOperator | None = None
    identity: JobIdentity | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)
    pull_secret: str | None = field(default=None, repr=False)
    objects: Sequence[Manifest] = ()
    store: str | None = None
    no_volume: str = ""
    refused_pulls: RefusedPulls | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The cluster's part of the stack's outputs: where jobs run, and what the stack owns."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "ownNamespace": self.own_namespace,
            "ownOperator": self.operator is None,
        }


Remains = Mapping[str, Sequence[str]]
"""What was looked for, in the plural, and each thing that was found, with how to remove it."""


@dataclass(frozen=True)
class OwnCluster:
    """A kind of cluster that is made and removed with its stack, as a resource of that.

    Args:
        type: The resource's type.
        handler: The `core.handler.Handler` that serves it.
        notes: Below the state directory, the folder in which each cluster has a directory by its
            name from before it is made until after it is removed.
        remove: Removes the cluster of such a directory, and the directory, whatever state it is in.
    """

    type: str
    handler: Lazy
    notes: str
    remove: Callable[[Path], None]

    def directory(self, name: str) -> Path:
        return state_dir() / self.notes / name


@dataclass(frozen=True)
class Kind:
    """A kind of cluster.

    What takes long to import is a `Lazy`: it is loaded when a stack has a cluster of this kind.

    Args:
        settings: The frozen dataclass of the settings in `slipway:cluster` for this kind, besides
            `kind` itself. A field `name` without a value is filled with the stack's name.
        declare: Declares the cluster's resources in the running Pulumi program.
        remains: Looks for what is left of a destroyed stack, by the settings and `MADE_BY`'s name
            of it: anything of a cluster of its own, Slipway's labels in another's.
        gpus: Returns `Cluster.gpus` for the settings, without looking at a cluster; else none.
        pools: Returns the pools that are paid for by the hour, for the settings; else none.
        kubernetes: Returns its version of Kubernetes, as far as the settings tell; else None.
        capacity: Returns what a cluster has for jobs; None where that is not known beforehand.
        own: The cluster as the stack's own resource; None where it is another's, or a cloud's.
        image_targets: What makes an `images.targets.target.Target` that only this kind has from
            the other keys of its map, by the `kind` in it.
        handlers: The handlers of further resources that only this kind has, by their types.
        tools: What set-up has to provide besides what every stack needs, as `scripts.setup` calls
            it.
        more_tools: Returns further ones that it takes on this machine.
        tool_of_setting: The one that a setting takes where it is true, by the setting's name.
        extra: The extra of pyproject.toml that it needs to declare a cluster; None without.
        runs_on_host: Whether its programs run on this machine itself, which needs Linux and root.
    """

    settings: Lazy
    declare: Callable[[Any], Cluster]
    remains: Callable[[Any, str], Remains]
    gpus: Callable[[Any], GpuPool | None] = lambda _settings: None
    pools: Callable[[Any], Sequence[NodePool]] = lambda _settings: ()
    kubernetes: Callable[[Any], str | None] = lambda own: getattr(own, "kubernetes_version", None)
    capacity: Callable[[Any], Capacity | None] = lambda _settings: None
    own: OwnCluster | None = None
    image_targets: Mapping[str, Lazy] = field(default_factory=dict)
    handlers: Mapping[str, Lazy] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    more_tools: Callable[[], Sequence[str]] = tuple
    tool_of_setting: Mapping[str, str] = field(default_factory=dict)
    extra: str | None = None
    runs_on_host: bool = False

    def provision(self, settings: Any) -> Cluster:
        """Declare such a cluster in the running program; `pulumi.RunError` without its packages."""
        import pulumi  # noqa: PLC0415  # loaded already where anything is declared

        if self.extra is not None:
            use_extra(self.extra)
        try:
            return self.declare(settings)
        except ModuleNotFoundError as error:
            raise pulumi.RunError(
                f"The Python package {error.name} is not installed. "
                f"Run `make setup STACK={pulumi.get_stack()}`, then try again."
            ) from error
