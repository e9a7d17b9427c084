"""The interface between clusters and the rest of Slipway: each kind's folder exports a `Kind`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.handler import Lazy
from core.paths import state_dir, use_extra

if TYPE_CHECKING:  # slow to import, and not needed for the facts about a kind
    import pulumi
    import pulumi_kubernetes

    from clusters.cloud_reports import RefusedPulls
    from clusters.nodes import Capacity, GpuPool, NodePool
    from core.manifests import Manifest

JOBS = "slipway-jobs"
"""The namespace that jobs run in by default."""
JOB_ACCOUNT = "slipway-job"
"""The service account for job pods. It has no permissions, and its token is not mounted."""
REGISTRY_LOGIN = "slipway-registry"
"""The Secret that contains `Cluster.pull_secret`, in each namespace whose pods need it."""
ONE_AT_A_TIME = "a volume of the default StorageClass can be used on only one of them at a time"
"""See https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes"""
_BUILDERS = Lazy("images.build.engines.needed")


@dataclass(frozen=True)
class JobIdentity:
    """The jobs' identity in the cluster's cloud, for keyless access to the cloud's services."""

    annotations: Mapping[str, pulumi.Input[str]]
    """Annotations for the jobs' service account."""
    labels: Mapping[str, str]
    """Labels for the jobs' pods."""


@dataclass(frozen=True)
class ExistingOperator:
    """A training operator that another party installed in the cluster.

    Args:
        version: Its version, such as `1.9.2`, or None if unknown.
        namespace: The namespace of its Deployment, or None if it can't be read.
        deployment: The name of its Deployment, or None if it can't be read.
        judges: True if it validates PyTorchJobs with a webhook, as version 1.8 and later do.
    """

    version: str | None = None
    namespace: str | None = None
    deployment: str | None = None
    judges: bool = True


@dataclass(frozen=True)
class Cluster:
    """A declared cluster and its properties, independent of the cluster's kind.

    Args:
        kind: Its key in `clusters.kinds.CLUSTERS`, used only in messages.
        provider: The provider for all Kubernetes objects; it depends on everything they require.
        resource: The cluster itself, or None if the stack did not create it.
        kubeconfig: The kubeconfig as YAML. Always a secret.
        image_target: The input `target` of `slipway:images:Image`, which puts images into the
            cluster. `kind` and the values that image names depend on are plain; others may be
            Pulumi outputs.
        images: References to images that the cluster can run, keyed by `training-operator` and
            `tcp-wait`.
        gpus: Its GPU nodes, or None if it has none.
        namespace: The jobs' namespace.
        own_namespace: True if the stack creates the namespace, False if it already exists.
        operator: The existing training operator, or None if the stack installs one.
        identity: The jobs' identity in the cluster's cloud, or None if they have none.
        mirrors: Copies of images from other registries, keyed by the names that jobs use.
        pull_secret: The docker config.json that nodes use to pull images, always a secret, or
            None if they need none.
        objects: Further objects that the stack has to create in this cluster.
        store: The fsspec URL under which jobs may keep files, or None if the cluster's cloud has
            no store.
        no_volume: The reason jobs can't keep files on a volume of the default StorageClass, or
            empty if they can.
        refused_pulls: The policy for refused image pulls that may soon succeed, or None.
    """

    kind: str
    provider: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str] = field(repr=False)
    image_target: Mapping[str, Any]
    images: Mapping[str, str]
    resource: pulumi.Resource | None = None
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

    def options(self, **more: Any) -> pulumi.ResourceOptions:
        """Return options for a Kubernetes object, which is deleted and recreated with the cluster.

        If its identifier changed instead, Pulumi would close the provider and then delete with it
        (https://github.com/pulumi/pulumi/blob/v3.274.1/pkg/resource/deploy/providers/registry.go#L780).
        """
        import pulumi  # noqa: PLC0415  # as in `Kind.provision`

        return pulumi.ResourceOptions(provider=self.provider, deleted_with=self.resource, **more)

    @property
    def facts(self) -> dict[str, Any]:
        """In the stack output `cluster`: kind, the jobs' namespace, and what the stack created."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "ownNamespace": self.own_namespace,
            "ownOperator": self.operator is None,
        }


Remains = Mapping[str, Sequence[str]]
"""Items that a stack left behind, keyed by a plural noun; each ends with its removal command."""


@dataclass(frozen=True)
class OwnCluster:
    """A kind of cluster that is itself a stack resource, created and deleted with the stack.

    Args:
        type: The resource's type.
        handler: The resource's `core.handler.Handler`.
        notes: The folder in the state directory that contains a directory for each cluster. That
            directory is created before the cluster and deleted after it.
        remove: Removes the cluster that a directory belongs to, in any state, and the directory.
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

    Anything slow to import is a `Lazy`, which is loaded only if a stack has this kind of cluster.

    Args:
        settings: The frozen dataclass for this kind's settings in `slipway:cluster`, except
            `kind`. A field `name` that is not set gets the stack's name.
        declare: Declares the cluster's resources in the current Pulumi program.
        remains: Finds what a destroyed stack left behind, given the settings and the stack's name
            in `MADE_BY`: parts of its own cluster, or objects with Slipway's labels in an existing
            cluster.
        gpus: Returns `Cluster.gpus` from the settings only; by default None.
        pools: Returns the node pools to estimate costs for, from the settings; by default none.
        kubernetes: Returns the Kubernetes version in the settings, or None.
        capacity: Returns the cluster's capacity for jobs, or None if it is not known in advance.
        own: The cluster as a stack resource, or None for existing clusters and cloud clusters.
        image_targets: Factories for this kind's `images.targets.target.Target`s, keyed by the
            `kind` in `Cluster.image_target`; the other keys there are a factory's arguments.
        handlers: Handlers for this kind's other resources, keyed by their types.
        tools: Names in `scripts.setup` of tools that setup must provide in addition to those that
            every stack needs.
        more_tools: Returns the tools that are also needed on this machine, from the settings as in
            the stack's file; by default those that build images.
        tool_of_setting: Tools that are needed only if a setting is true, keyed by the setting.
        extra: The pyproject.toml extra needed to declare a cluster, or None.
        runs_on_host: True if its programs run directly on this machine, which needs Linux and root.
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
    more_tools: Callable[[Mapping[str, Any]], Sequence[str]] = _BUILDERS
    tool_of_setting: Mapping[str, str] = field(default_factory=dict)
    extra: str | None = None
    runs_on_host: bool = False

    def provision(self, settings: Any) -> Cluster:
        """Declare a cluster in the current program, or raise `RunError` if a package is missing."""
        import pulumi  # noqa: PLC0415  # already loaded in a running program

        if self.extra is not None:
            use_extra(self.extra)
        try:
            return self.declare(settings)
        except ModuleNotFoundError as error:
            raise pulumi.RunError(
                f"The Python package {error.name} is not installed. "
                f"Run `make setup STACK={pulumi.get_stack()}`, then try again."
            ) from error
