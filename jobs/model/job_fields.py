"""The fields of a training job, each with its type and what another value of it does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from core.fields import CONFIG, Count, Cpu, Image, LabelKey, LabelValue, Memory, NodeKey, Positive
from jobs.model import fields, parts
from jobs.model.fields import Content, InPlace, Judges, Trains, Waits

TIMEOUT, START_TIMEOUT = 24 * 3600, 300
"""Seconds: the defaults."""


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class JobFields:
    """What a job is declared with: docs/jobs.md describes each field, in its table and for editors.

    The type of each field says what another value does to a run that is there: `fields.Effect`.
    """

    name: Trains[fields.Name]
    was: Content[fields.FormerNames] = ()
    # A program of the trainer's image: what entries of the catalogue run.
    module: Trains[Literal["mnist", "cifar", "mnist_elastic", "images"] | None] = None
    script: Content[fields.FilePath | None] = None
    script_entry: Content[fields.InnerPath | None] = None
    requirements: Content[fields.FilePath | None] = None
    torch: Content[fields.Torch | None] = None
    build: Content[parts.Build | None] = None
    image: Content[Image | None] = None
    command: Trains[Annotated[tuple[fields.Word, ...], Field(min_length=1)] | None] = None
    args: Trains[tuple[fields.Word, ...]] = ()
    working_dir: Trains[fields.FilePath | None] = None
    backend: Trains[Literal["gloo", "nccl"]] = "gloo"
    workers: Trains[fields.Workers] = 1
    processes_per_node: Trains[Annotated[int, Field(ge=1, le=64)]] = 1
    master: Trains[parts.Master | None] = None
    cpu: Trains[Cpu] = "400m"
    memory: Trains[Memory] = "1Gi"
    ephemeral_storage: Trains[Memory | None] = None
    gpus: Trains[Count | None] = None
    limits: Trains[parts.Limits | None] = None
    shared_memory: Trains[Memory | None] = None
    node_selector: Trains[dict[NodeKey, LabelValue]] = Field(default_factory=dict)
    tolerations: Trains[tuple[parts.Toleration, ...]] = ()
    volumes: Trains[dict[fields.VolumeName, parts.Volume]] = Field(default_factory=dict)
    pull_policy: Trains[Literal["IfNotPresent", "Always", "Never"]] = "IfNotPresent"
    pull_secrets: Waits[tuple[fields.ObjectName, ...]] = ()
    restart_policy: Trains[Literal["OnFailure", "Never", "ExitCode"]] = "OnFailure"
    backoff_limit: InPlace[Count | None] = None
    timeout: InPlace[fields.WholeSeconds] = TIMEOUT
    start_timeout: Waits[fields.WholeSeconds] = START_TIMEOUT
    ttl_seconds_after_finished: InPlace[Annotated[int, Field(ge=60)] | None] = None
    clean_pod_policy: InPlace[Literal["None", "Running", "All"]] = "None"
    priority_class: InPlace[fields.ObjectName | None] = None
    queue: Waits[Annotated[fields.ObjectName, Field(max_length=63)] | None] = None
    elastic: Trains[parts.Elastic | None] = None
    labels: InPlace[dict[LabelKey, LabelValue]] = Field(default_factory=dict)
    annotations: InPlace[dict[LabelKey, fields.Value]] = Field(default_factory=dict)
    env: Trains[dict[fields.Variable, fields.Value | parts.SecretKey]] = Field(default_factory=dict)
    epochs: Trains[Positive | None] = None
    batch_size: Trains[Positive | None] = None
    learning_rate: Trains[fields.AboveZero | None] = None
    momentum: Trains[fields.Momentum | None] = None
    seed: Trains[Count | None] = None
    goal: Trains[fields.Goal | None] = None
    outputs: Trains[fields.Url | None] = None
    keep: Waits[tuple[fields.PathPattern, ...] | None] = None
    outputs_every: Waits[fields.WholeSeconds | None] = None
    depends_on: Waits[tuple[fields.Name, ...]] = ()
    inputs: Trains[dict[fields.InputName, parts.JobInput]] = Field(default_factory=dict)
    data: Trains[parts.Data | None] = None
    checkpoint: Waits[parts.Checkpoint | None] = None
    retries: Waits[Annotated[int, Field(ge=0, le=10)]] = 0
    retry_on: Waits[Annotated[tuple[fields.Retriable, ...], Field(min_length=1)] | None] = None
    on_cancel: Waits[Literal["keep", "delete"]] = "keep"
    min_accuracy: Judges[
        fields.Accuracy | Annotated[dict[str, fields.Accuracy], Field(min_length=1)] | None
    ] = None
    max_duration: Judges[fields.Seconds | None] = None
    max_time_to_accuracy: Judges[fields.Seconds | None] = None
    metrics: Waits[dict[fields.MetricName, fields.Pattern]] = Field(default_factory=dict)
    require: Judges[dict[fields.MetricName, parts.Bounds]] = Field(default_factory=dict)
    distributed: Judges[bool] = True
    min_gpu_utilization: Waits[fields.Percent | None] = None
    max_cost: Judges[fields.AboveZero | None] = None

    @property
    def origin(self) -> str:
        """Its first name: what its files, volumes and images are called by, and its hash."""
        return self.was[0] if self.was else self.name

    @property
    def fetches(self) -> bool:
        """Whether a container of the trainer's image fetches files before the program starts."""
        return bool(self.inputs) or (self.data is not None and self.data.url is not None)

    @property
    def max_restarts(self) -> int:
        """The backoff limit that applies."""
        if self.backoff_limit is not None:
            return self.backoff_limit
        return 1 if self.elastic is None else self.elastic.max_restarts + 1
