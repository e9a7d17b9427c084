"""The interface of clusters to the rest of Slipway: each kind's folder exports one `Kind`."""

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
"""The service account of a job's pods, which has no rights and whose token is not mounted."""
REGISTRY_LOGIN = "slipway-registry"
"""The Secret with `Cluster.pull_secret`, in each namespace whose pods need it."""
ONE_AT_A_TIME = "a volume of the default StorageClass can be used on one of them at a time"
"""Of several nodes: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes"""


@dataclass(frozen=True)
class JobIdentity:
    """The jobs' identity in the cluster's cloud, with which they use its services without a key."""

    annotations: Mapping[str, pulumi.Input[str]]
    """Annotations of the jobs' service account."""
    labels: Mapping[str, str]
    """Labels of the jobs' pods."""


@dataclass(frozen=True)
class ExistingOperator:
    """A training operator that another party has installed in the cluster.

    Args:
        version: Its version, such as `1.9.2`; None if unknown.
        namespace: The namespace of its Deployment; None if that can't be read.
        deployment: The name of its Deployment; None if that can't be read.
        judges: True if it has a webhook for PyTorchJobs, as versions since 1.8 have.
    """

    version: str | None = None
    namespace: str | None = None
    deployment: str | None = None
    judges: bool = True


@dataclass(frozen=True)
class Cluster:
    """A declared cluster and its properties. Code that uses it does not depend on its kind.

    Args:
        kind: Its key in `clusters.kinds.CLUSTERS`, only for messages.
        provider: The provider of all Kubernetes objects; it depends on all of their prerequisites.
        kubeconfig: The kubeconfig as YAML. Always a secret.
        image_target: The `target` of `slipway:images:Image`, to put images into the cluster. Its
            `kind`, and values that image names depend on, are plain; others may be outputs.
        images: References of images that the cluster can run, by the names
            `training-operator` and `tcp-wait`.
        gpus: Its nodes with GPUs; None without.
        namespace: The jobs' namespace.
        own_namespace: True if the stack creates the namespace; False if it exists, and remains.
        operator: The existing training operator; None if the stack installs one.
        identity: The jobs' identity in the cluster's cloud; None if they have none.
        mirrors: Replacements for images of other registries, by the names that jobs use.
        pull_secret: A docker config.json with which nodes pull images, always a secret;
            None if they need none.
        objects: Further objects of this cluster, which the stack has to create.
        store: A URL for fsspec, below which jobs may keep files; None if the cluster's cloud has
            no store.
        no_volume: Why jobs can't keep files on a volume of the default StorageClass; else empty.
        refused_pulls: The refused image pulls to wait for; None for none.
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
        """The stack's output `cluster`: the jobs' namespace, and what the stack owns."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "ownNamespace": self.own_namespace,
            "ownOperator": self.operator is None,
        }


Remains = Mapping[str, Sequence[str]]
"""Resources that remain, each with the command to remove it, by their kind in the plural."""


@dataclass(frozen=True)
class OwnCluster:
    """A kind of cluster that is a resource of its stack, created and deleted with it.

    Args:
        type: The resource's type.
        handler: The `core.handler.Handler` of the resource.
        notes: The folder below the state directory in which each cluster has a directory with its
            name, from before its creation until after its deletion.
        remove: Removes the cluster of a directory, in any state, and then the directory.
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

    Slow imports are a `Lazy`, which is loaded only if a stack has a cluster of this kind.

    Args:
        settings: The frozen dataclass of the settings in `slipway:cluster` for this kind, except
            `kind`. A field `name` without a value gets the stack's name.
        declare: Declares the cluster's resources in the running Pulumi program.
        remains: Finds remains of a destroyed stack, from the settings and its name in `MADE_BY`:
            all of the stack's cluster, or objects with Slipway's labels in an existing one.
        gpus: Returns `Cluster.gpus` from the settings alone; by default None.
        pools: Returns the pools that are paid for by the hour, from the settings; by default none.
        kubernetes: Returns the version of Kubernetes in the settings, or None.
        capacity: Returns the cluster's capacity for jobs; None if not known beforehand.
        own: The cluster as a resource of the stack; None for existing clusters and those of clouds.
        image_targets: Factories of this kind's `images.targets.target.Target`s, by the `kind` of
            the `target`; they get its other keys.
        handlers: Handlers of further resources of this kind, by their types.
        tools: Tools that set-up has to provide in addition to those of every stack, by their names
            in `scripts.setup`.
        more_tools: Returns further tools that are needed on this machine.
        tool_of_setting: The tool that is needed if a setting is true, by the setting's name.
        extra: The extra of pyproject.toml for declaring a cluster; None without.
        runs_on_host: True if its programs run on this machine itself, which needs Linux and root.
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
        """Declare a cluster in the running program, or raise `RunError` if packages are missing."""
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
