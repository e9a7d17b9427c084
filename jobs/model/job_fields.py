"""The fields of a training job, each with its type and what another value of it does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from core.fields import CONFIG, Count, Cpu, Image, LabelKey, LabelValue, Memory, NodeKey, Positive
from jobs.model import fields, parts
from jobs.model.fields import Content, InPlace, Judges, Trains, Waits

START_TIMEOUT = 300
"""Seconds: the default."""


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class JobFields:
    """What a job is declared with. docs/jobs.md has every field with an example.

    Args:
        name: The PyTorchJob's name.
        module: A program of the trainer's image: what the entries of the catalogue run.
        script: A Python file or a folder, relative to the checkout, or absolute, put into the pods.
        script_entry: Which file of a folder is started; `train.py` unless said.
        requirements: A file that lists the script's Python packages, as pip reads it; they are
            built into a layer over the trainer's image.
        torch: Which version of torch the trainer's image has; the stack's, or the newest that
            passed the tests, unless said.
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
        queue: The LocalQueue in which Kueue, where the cluster has it, lets the job wait for room.
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

    The type of each field says what another value does to a run that is there: `fields.Effect`.
    """

    name: Trains[fields.Name]
    module: Trains[Literal["mnist", "cifar", "mnist_elastic", "images"] | None] = None
    script: Content[fields.FilePath | None] = None
    script_entry: Content[fields.InnerPath | None] = None
    requirements: Content[fields.FilePath | None] = None
    torch: Content[fields.Torch | None] = None
    build: Content[parts.Build | None] = None
    image: Content[Image | None] = None
    command: Trains[Annotated[tuple[fields.Word, ...], Field(min_length=1)] | None] = None
    args: Trains[tuple[fields.Word, ...]] = ()
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
    timeout: InPlace[fields.WholeSeconds] = 3600
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
    require: Judges[dict[fields.MetricName, parts.Bounds]] = Field(default_factory=dict)
    min_gpu_utilization: Waits[fields.Percent | None] = None
    max_cost: Judges[fields.AboveZero | None] = None

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
