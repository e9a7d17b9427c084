"""A training job, its fields and their types, and the parts that go into a run's hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from core.fields import CONFIG, Count, Cpu, Image, LabelKey, LabelValue, Memory, NodeKey, Positive
from core.validation import contradictory
from jobs.model import fields, parts
from jobs.model.consistency import contradictions
from jobs.model.fields import Content, Effect, InPlace, Judges, Trains, Waits

TIMEOUT, START_TIMEOUT = 24 * 3600, 300
"""The defaults for `timeout` and `start_timeout`, in seconds."""


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class TrainingJob:
    """One distributed training run. In the stack's configuration, keys are in camelCase.

        TrainingJob(
            name="mine",
            script="train.py",
            workers=3,
            env={"TOKEN": SecretKey(secret="hub", key="token")},
            volumes={"data": Volume(claim="images", mount_path="/data", read_only=True)},
        )

    A job has exactly one of `module`, `script`, `build` and `image`. Each field's type states how a
    change affects an existing run (`fields.Effect`); docs/jobs.md describes all fields.

    Raises:
        pydantic.ValidationError: lists every invalid field and all contradictions.
    """

    name: Trains[fields.Name]
    was: Content[fields.FormerNames] = ()
    # A program in the trainer image, which a catalogue entry runs.
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
    stall: Waits[fields.WholeSeconds | None] = None
    on_failure: Waits[parts.OnFailure | None] = None
    debug: Trains[Count | None] = None
    drill: Trains[parts.Drill | None] = None
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
    wait: Waits[bool | None] = None
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
        """The job's original name, which its files, volumes, images and hash keep."""
        return self.was[0] if self.was else self.name

    @property
    def fetches(self) -> bool:
        """True if an init container fetches files before the program starts."""
        return bool(self.inputs) or (self.data is not None and self.data.url is not None)

    @property
    def hold(self) -> int:
        """The number of seconds for which a failed rank's pod is kept running."""
        return 0 if self.on_failure is None else self.on_failure.hold

    @property
    def max_restarts(self) -> int:
        """The job's `backoff_limit` or, by default, 1 or one more than `elastic.max_restarts`."""
        if self.backoff_limit is not None:
            return self.backoff_limit
        return 1 if self.elastic is None else self.elastic.max_restarts + 1

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if conflicts := contradictions(self):
            raise contradictory(conflicts)
        if self.module is not None:
            for name, default in parts.MODULES[self.module].defaults.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, default)  # frozen only once it is complete
        return self


def fields_of(part: type[Any]) -> Mapping[str, FieldInfo]:
    """Return the fields of a job, or of one of its parts, by name."""
    infos: Mapping[str, FieldInfo] = part.__pydantic_fields__
    return infos


def _effect(field: FieldInfo) -> Effect | None:
    return next((each for each in field.metadata if isinstance(each, Effect)), None)


EFFECTS: Mapping[str, Effect | None] = {
    to_camel(name): _effect(field) for name, field in fields_of(TrainingJob).items()
}
"""The effect of changing each field, keyed as in the stack's configuration.

A run's diff, hash and preview, and the table in docs/jobs.md, are derived from it. A nested field
without an effect has the effect of the field that contains it.
"""


def declaration(job: TrainingJob) -> dict[str, Any]:
    """Return a job as it appears in its run's inputs, with keys as in the stack's file.

    Empty values are left out, as are fields that are used only to evaluate a run.
    """
    dumped = TypeAdapter(TrainingJob).dump_python(job, mode="json", by_alias=True)
    return {
        key: value
        for key, value in dumped.items()
        if EFFECTS[key] is not Effect.JUDGES and value not in (None, {}, [])
    }


def decisive(value: Any) -> Any:
    """Return the fields in a job, or in part of a job, that can alter its run's result."""
    if isinstance(value, Mapping):
        return {key: decisive(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [*map(decisive, value)]
    if not is_dataclass(value):
        return value
    values = {
        to_camel(name): decisive(getattr(value, name))
        for name, field in fields_of(type(value)).items()
        if _effect(field) in {None, Effect.TRAINS}
    }
    return {key: each for key, each in values.items() if each not in (None, {}, [])}
