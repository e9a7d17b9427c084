"""What a job is made of besides plain values, and the catalogue's programs.

In the stack's configuration keys are camelCase.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from core import manifests
from core.fields import CONFIG, Count, Cpu, Directory, LabelValue, Memory, NodeKey, integer
from jobs.model import fields
from jobs.model.names import OUTPUT_DIR


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Limits:
    """The most that a replica may use.

    Args:
        cpu: Cores; without a limit it may use what others leave idle.
        memory: With `/dev/shm`; the `memory` that it asks for unless said.
        ephemeral_storage: On the node's disk.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    ephemeral_storage: Memory | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Master:
    """What the Master asks for where it is not the same as for a Worker.

    Args:
        cpu: Cores that it is sure to have.
        memory: That it is sure to have, `/dev/shm` included.
        ephemeral_storage: On the node's disk, that it is sure to have.
        gpus: How many it has.
        limits: The most that it may use.
    """

    cpu: Cpu | None = None
    memory: Memory | None = None
    ephemeral_storage: Memory | None = None
    gpus: Count | None = None
    limits: Limits | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Volume:
    """A directory in every replica: of exactly one kind.

    Args:
        mount_path: Where it is in the container.
        claim: The name of a PersistentVolumeClaim that is there.
        size: A claim of this size is made, empty, of the cluster's default storage class.
        keep: Whether that claim and its files stay when the job goes: true unless said.
        empty_dir: Empty for each pod and gone with it: `true`, or the most that it may hold.
        host_path: A directory of the node, which becomes a PersistentVolume and a claim.
        read_only: Whether nothing may be written to it.
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
    """Train with fewer replicas than asked for, and with more again.

    Args:
        min_replicas: With fewer the training waits. More than half of `max_replicas` unless set,
            so that only one part of a split network goes on.
        max_replicas: There are never more; the job's `workers` unless said.
        max_restarts: How often a replica may be started again, all of them together.
    """

    min_replicas: fields.Replicas | None = None
    max_replicas: fields.Replicas | None = None
    max_restarts: Count = 10

    def most(self, workers: int) -> int:
        """Return the number of replicas that a job of so many workers may have."""
        return workers if self.max_replicas is None else self.max_replicas

    def least(self, workers: int) -> int:
        """Return with how many replicas a job of so many workers goes on."""
        return self.most(workers) // 2 + 1 if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class OnFailure:
    """What becomes of the pod of a rank whose program fails: for how long to `hold` it."""

    hold: fields.WholeSeconds


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Checkpoint:
    """How often a training's state is written, for a later attempt to go on from.

    Args:
        every: How far apart checkpoints are: `500 steps`, or `10 min`.
        keep: How many of them stay.
        url: Where they are, as a URL that fsspec knows, instead of where the stack keeps files.
    """

    every: fields.Interval = "600 s"
    keep: Annotated[int, Field(ge=1, le=100), BeforeValidator(integer)] = 2
    url: fields.Url | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Build:
    """An image to build.

    Args:
        context: The folder with all that goes into it, relative to the stack's file, or absolute.
        dockerfile: In that folder.
    """

    context: fields.FilePath
    dockerfile: fields.InnerPath = "Dockerfile"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Toleration:
    """Which taints of nodes the pods put up with, in Kubernetes' own words.

    Args:
        key: The taint's key; all taints unless said, with the operator `Exists`.
        operator: Whether the taint has this `value`, or any.
        value: The taint's value.
        effect: The taint's effect; every effect unless said.
        toleration_seconds: How long a pod stays on a node that gets a `NoExecute` taint; for ever
            unless said.
    """

    key: NodeKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Count | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SecretKey:
    """A value out of a Secret of the jobs' namespace: an existing one, or the job's own.

    Args:
        secret: The name of a Secret that is there.
        key: Which of its keys.
        config: A secret of the stack's configuration, set by `pulumi config set --secret`: the
            job's own Secret gets its value. Instead of `secret` and `key`.
    """

    secret: fields.ObjectName | None = None
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] | None = None
    config: fields.ConfigKey | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class JobInput:
    """A file that another job leaves, which is there when this one starts.

    Args:
        job: The other job, which has `outputs` or whose files the stack keeps.
        artifact: The file's path below that job's SLIPWAY_OUTPUT_DIR.
    """

    job: fields.Name
    artifact: fields.ArtifactPath


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Data:
    """What a job trains on: a URL with its sha256, or a volume that has it.

    Args:
        url: An archive (tar, zip), which is unpacked, or another file; any URL that fsspec knows.
        sha256: What that file has.
        volume: The job's volume with the data; with a `url` the one that keeps what was fetched.
    """

    url: fields.Content[fields.Url | None] = None
    sha256: fields.Sha256 | None = None
    volume: fields.VolumeName | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Bounds:
    """What a figure of a result has to be within.

    Args:
        min: No less than this.
        max: No more than this.
    """

    min: fields.Figure | None = None
    max: fields.Figure | None = None


class Module(NamedTuple):
    """A program in the trainer's image, which the catalogue runs."""

    options: Mapping[str, str]  # of its command line, by the field of a job that each one takes
    defaults: Mapping[str, Any]  # the fields' values unless the job has others
    arguments: Sequence[str] = ()  # the others, always
    is_elastic: bool = False  # whether it needs an elastic job, whose replicas may be lost


(_PROGRAMS,) = manifests.rendered(Path(__file__).with_name("programs.yaml"), outputs=OUTPUT_DIR)
MODULES: Mapping[str, Module] = {name: Module(**fields) for name, fields in _PROGRAMS.items()}
HYPERPARAMETERS = tuple(MODULES["mnist"].options)
"""The fields of a job that only these programs take."""
