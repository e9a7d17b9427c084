"""A job's structured fields, and the catalogue's programs.

In the stack's configuration, keys are in camelCase.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from core import manifests
from core.fields import CONFIG, Count, Cpu, Directory, LabelValue, Memory, NodeKey, Positive
from jobs.model import fields
from jobs.model.names import OUTPUT_DIR


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Limits:
    """The maximum that a replica can use.

    Args:
        cpu: CPU cores; by default, a replica can also use the node's idle cores.
        memory: Memory, including `/dev/shm`; by default the `memory` that it requests.
        ephemeral_storage: Space on the node's disk.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    ephemeral_storage: Memory | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Master:
    """The Master's requests, where they differ from a Worker's.

    Args:
        cpu: CPU cores that it requests.
        memory: Memory that it requests, including `/dev/shm`.
        ephemeral_storage: Disk space on the node that it requests.
        gpus: The number of GPUs that it requests.
        limits: The maximum that it can use.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    ephemeral_storage: Memory | None = None
    gpus: Count | None = None
    limits: Limits | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Volume:
    """A volume that is mounted in every replica, of exactly one kind.

    Args:
        mount_path: The directory's path in the container.
        claim: The name of an existing PersistentVolumeClaim.
        size: The size of a new, empty claim with the cluster's default storage class.
        keep: True, the default, keeps the claim for `size` and its files when the job is removed.
        empty_dir: A directory that starts empty and is deleted with its pod: `true`, or the
            maximum size.
        host_path: A directory on the node, which becomes a PersistentVolume and a claim.
        read_only: True mounts the volume read-only.
    """

    mount_path: Directory
    claim: fields.ObjectName | None = None
    size: fields.InPlace[Memory | None] = None
    keep: fields.InPlace[bool | None] = None
    empty_dir: Literal[True] | Memory | None = None
    host_path: Directory | None = None
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Elastic:
    """Limits within which an elastic job may lose and gain replicas.

    Args:
        min_replicas: The minimum number of replicas for training to continue. By default, more than
            half of `max_replicas`, so that only one part of a split network continues.
        max_replicas: The maximum number of replicas; by default the job's `workers`.
        max_restarts: The maximum number of replica restarts in total.
    """

    min_replicas: fields.Replicas | None = None
    max_replicas: fields.Replicas | None = None
    max_restarts: Count = 10

    def most(self, workers: int) -> int:
        """Return the maximum number of replicas for a job with `workers`."""
        return workers if self.max_replicas is None else self.max_replicas

    def least(self, workers: int) -> int:
        """Return the minimum number of replicas with which a job with `workers` trains."""
        return self.most(workers) // 2 + 1 if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class OnFailure:
    """Handling of failures: the number of seconds to `hold` a failed rank's pod."""

    hold: fields.WholeSeconds


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Drill:
    """A deliberate failure: in the first attempt, a rank's program is killed once.

    Args:
        rank: The rank that is killed.
        step: The rank is killed once it has reported this step, or a later one.
        within: The number of seconds within which some rank must then report a later step.
    """

    rank: Count
    step: Positive
    within: fields.Judges[fields.WholeSeconds]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Checkpoint:
    """Checkpoints of the training state, from which a later attempt resumes.

    Args:
        every: The interval between checkpoints: `500 steps`, or `10 min`.
        keep: The number of checkpoints to keep.
        url: A URL that fsspec supports, for checkpoints stored separately from the stack's files.
    """

    every: fields.Interval = "600 s"
    keep: fields.Checkpoints = 2
    url: fields.Url | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Build:
    """An image to build.

    Args:
        context: The build context, a folder, absolute or relative to the stack's file.
        dockerfile: The Dockerfile's path in that folder.
    """

    context: fields.FilePath
    dockerfile: fields.InnerPath = "Dockerfile"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Toleration:
    """A pod toleration for node taints, as in Kubernetes.

    Args:
        key: The taint's key; if it is not set and the operator is `Exists`, all taints match.
        operator: `Equal` requires the taint to have this `value`; `Exists` allows any value.
        value: The taint's value.
        effect: The taint's effect; by default, any effect.
        toleration_seconds: Seconds that a pod stays on a node that gets a `NoExecute` taint; by
            default, forever.
    """

    key: NodeKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Count | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SecretKey:
    """A value from a Secret in the jobs' namespace: an existing Secret, or the job's own.

    Args:
        secret: The name of an existing Secret.
        key: The key in that Secret.
        config: A secret in the stack's configuration, set with `pulumi config set --secret`; its
            value is put in the job's own Secret. Replaces `secret` and `key`.
    """

    secret: fields.ObjectName | None = None
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] | None = None
    config: fields.ConfigKey | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class JobInput:
    """A file that another job produces, fetched before this job starts.

    Args:
        job: The other job, which sets `outputs` or whose files the stack keeps.
        artifact: The file's path below that job's SLIPWAY_OUTPUT_DIR.
    """

    job: fields.Name
    artifact: fields.ArtifactPath


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Data:
    """The data that a job trains on: a URL with its sha256, or a volume that contains it.

    Args:
        url: A URL that fsspec supports: an archive (tar, zip), which is unpacked, or another file.
        sha256: The file's sha256.
        volume: The job's volume that contains the data or, if `url` is set, stores fetched files.
    """

    url: fields.Content[fields.Url | None] = None
    sha256: fields.Sha256 | None = None
    volume: fields.VolumeName | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Bounds:
    """The bounds for a metric in a result.

    Args:
        min: The lowest value that is allowed.
        max: The highest value that is allowed.
    """

    min: fields.Figure | None = None
    max: fields.Figure | None = None


class Module(NamedTuple):
    """A catalogue program in the trainer image."""

    options: Mapping[str, str]  # command-line options, by the job field that sets each
    defaults: Mapping[str, Any]  # these fields' defaults
    arguments: Sequence[str] = ()  # fixed arguments
    is_elastic: bool = False  # whether it needs an elastic job, whose replicas may be lost


(_PROGRAMS,) = manifests.rendered(Path(__file__).with_name("programs.yaml"), outputs=OUTPUT_DIR)
MODULES: Mapping[str, Module] = {name: Module(**fields) for name, fields in _PROGRAMS.items()}
HYPERPARAMETERS = tuple(MODULES["mnist"].options)
"""The job fields that only the catalogue's programs accept."""
