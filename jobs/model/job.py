"""The declaration of a training job."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from core.fields import CONFIG, Count, Cpu, Image, LabelKey, LabelValue, Memory, NodeKey, Positive
from core.validation import contradictory
from jobs.model import fields, parts
from jobs.model.consistency import START_TIMEOUT, contradictions
from jobs.model.program import MODULES, ModuleName


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class TrainingJob:
    """One distributed training run. In the stack's configuration the keys are camelCase.

        TrainingJob(
            name="mine",
            script="train.py",
            workers=3,
            env={"TOKEN": SecretKey(secret="hub", key="token")},
            volumes={"data": Volume(claim="images", mount_path="/data", read_only=True)},
        )

    A job has exactly one of `module`, `script`, `build`, and `image` with `command`. docs/jobs.md
    has every field with an example.

    Args:
        name: The PyTorchJob's name.
        module: A program of the trainer's image: what the entries of the catalogue run.
        script: A Python file or a folder, relative to the checkout, or absolute, put into the pods.
        script_entry: Which file of a folder is started; `train.py` unless said.
        requirements: A file that lists the script's Python packages, as pip reads it; they are
            built into a layer over the trainer's image.
        build: An image to build and run.
        image: An image that is there.
        command: What to run in it; `{hosts}`, `{rank}` and `{run_id}` are filled in, in `args` too.
        args: Arguments of the program; for a `module` more of them.
        backend: Of torch.distributed; nccl asks for one GPU for each process.
        workers: Worker replicas; the Master (rank 0) comes on top. With 0 it is alone.
        processes_per_node: Processes in each replica; each is a rank.
        master: What the Master asks for where that is not the same.
        cpu: Cores that each replica is sure to have; it may use more while others idle.
        memory: That each replica is sure to have, `/dev/shm` included.
        ephemeral_storage: On the node's disk, that each replica is sure to have.
        gpus: Of each replica.
        limits: The most that each replica may use.
        shared_memory: The size of `/dev/shm`; half of the memory limit unless said.
        node_selector: Labels that a node must have.
        tolerations: Taints that the pods put up with.
        volumes: Directories in every replica, by name.
        pull_policy: When a node fetches the image.
        pull_secrets: Secrets of the namespace with which it may.
        restart_policy: Whether a container that failed is started again.
        backoff_limit: How many restarts, over all replicas, end the run as failed. With 1, the
            default, the first failed container ends it, while a pod whose node was lost is
            replaced; with 2 one restart is tolerated. An elastic job tolerates its `max_restarts`.
        timeout: Seconds after which the run is stopped.
        start_timeout: Seconds within which every replica must have started.
        ttl_seconds_after_finished: Seconds after its end when the PyTorchJob is removed; its
            result stays. Never unless said.
        clean_pod_policy: Which pods are removed at the end; those that stay can be read.
        priority_class: Of the pods.
        elastic: Go on with fewer replicas when some are lost; then there is no Master.
        labels: Besides, on the job and its pods.
        annotations: Likewise.
        env: Environment variables besides: text, or a key of a Secret.
        epochs: Passes over all training samples.
        batch_size: Samples of one step on one rank.
        learning_rate: Of one rank; the trainer scales it with the world size.
        momentum: Of the optimizer.
        seed: Of the weights and the order of the samples.
        goal: Stop when a validation reaches it: `accuracy=0.98` or above, `val_loss=0.3` or below.
        outputs: Where SLIPWAY_OUTPUT_DIR is copied to at the end, as a URL that fsspec knows.
        outputs_every: Seconds; copy what has changed in it that often while the job runs, too, to
            `outputs` or to where the stack keeps files.
        depends_on: Jobs that must have succeeded, and passed their gates, before this one starts.
        inputs: Files that such jobs leave, by the name that this one has for them: in
            SLIPWAY_INPUT_<NAME> it finds the path.
        data: What it trains on, fetched once for each node: the path is in SLIPWAY_DATA_DIR.
        checkpoint: Write the training's state now and then: a retry and a rerun of the same
            program and settings go on from the newest one. Own scripts use `slipway.save`.
        retries: How often the job is submitted anew when it failed for what `retry_on` names.
        retry_on: What a retry is for: `lostNode`, a node that was lost or a pod that had to make
            room, and nothing else unless said; `ownFailure`, the program's own failures, running
            out of memory among them.
        on_cancel: Whether Ctrl-C leaves the job running, for the next `up` to wait for, or deletes
            it.
        min_accuracy: With less than this the update fails although the run succeeded; one number,
            or one for each data set, by the name that a result has for it.
        max_duration: Seconds; with a `duration_seconds` above it the update fails likewise.
        max_time_to_accuracy: Seconds; likewise with `time_to_accuracy_seconds`, which a run with a
            `goal` has.
        require: Bounds of figures by name, `accuracy` and `loss` among them; likewise.
        min_gpu_utilization: Per cent; the run is stopped when one of its GPUs stays below it for 10
            minutes, as far as NVIDIA's DCGM exporter measures them.
        max_cost: What its nodes with GPUs may cost, in the currency of the stack's prices: a job
            that could cost more, in all its attempts until its `timeout`, is refused.

    Raises:
        pydantic.ValidationError: with every field that is not allowed.
    """

    name: fields.Name
    module: ModuleName | None = None
    script: fields.FilePath | None = None
    script_entry: fields.InnerPath | None = None
    requirements: fields.FilePath | None = None
    build: parts.Build | None = None
    image: Image | None = None
    command: Annotated[tuple[fields.Word, ...], Field(min_length=1)] | None = None
    args: tuple[fields.Word, ...] = ()
    backend: Literal["gloo", "nccl"] = "gloo"
    workers: fields.Workers = 1
    processes_per_node: Annotated[int, Field(ge=1, le=64)] = 1
    master: parts.Master | None = None
    cpu: Cpu = "400m"
    memory: Memory = "1Gi"
    ephemeral_storage: Memory | None = None
    gpus: Count | None = None
    limits: parts.Limits | None = None
    shared_memory: Memory | None = None
    node_selector: dict[NodeKey, LabelValue] = Field(default_factory=dict)
    tolerations: tuple[parts.Toleration, ...] = ()
    volumes: dict[fields.VolumeName, parts.Volume] = Field(default_factory=dict)
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    pull_secrets: tuple[fields.ObjectName, ...] = ()
    restart_policy: Literal["OnFailure", "Never", "ExitCode"] = "OnFailure"
    backoff_limit: Count | None = None
    timeout: fields.WholeSeconds = 3600
    start_timeout: fields.WholeSeconds = START_TIMEOUT
    ttl_seconds_after_finished: Annotated[int, Field(ge=60)] | None = None
    clean_pod_policy: Literal["None", "Running", "All"] = "None"
    priority_class: fields.ObjectName | None = None
    elastic: parts.Elastic | None = None
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    annotations: dict[LabelKey, fields.Value] = Field(default_factory=dict)
    env: dict[fields.Variable, fields.Value | parts.SecretKey] = Field(default_factory=dict)
    epochs: Positive | None = None
    batch_size: Positive | None = None
    learning_rate: fields.AboveZero | None = None
    momentum: fields.Momentum | None = None
    seed: Count | None = None
    goal: fields.Goal | None = None
    outputs: fields.Url | None = None
    outputs_every: fields.WholeSeconds | None = None
    depends_on: tuple[fields.Name, ...] = ()
    inputs: dict[fields.InputName, parts.JobInput] = Field(default_factory=dict)
    data: parts.Data | None = None
    checkpoint: parts.Checkpoint | None = None
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    retry_on: Annotated[tuple[fields.Retriable, ...], Field(min_length=1)] | None = None
    on_cancel: Literal["keep", "delete"] = "keep"
    min_accuracy: (
        fields.Accuracy | Annotated[dict[str, fields.Accuracy], Field(min_length=1)] | None
    ) = None
    max_duration: fields.Seconds | None = None
    max_time_to_accuracy: fields.Seconds | None = None
    require: dict[fields.MetricName, parts.Bounds] = Field(default_factory=dict)
    min_gpu_utilization: fields.Percent | None = None
    max_cost: fields.AboveZero | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := contradictions(self):
            raise contradictory(found)
        if self.module is not None:
            for name, default in MODULES[self.module].defaults.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, default)  # frozen only once it is complete
        return self

    @property
    def replicas(self) -> int:
        """The number of pods: the Master, unless the job is elastic, and the Workers."""
        return self.workers + (0 if self.elastic is not None else 1)

    @property
    def world_size(self) -> int:
        """The number of ranks; those of one replica follow each other."""
        return self.replicas * self.processes_per_node

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
