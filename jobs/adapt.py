"""Adapt a job to its cluster: GPU nodes, registry mirrors and identity."""

from dataclasses import replace
from pathlib import Path

from clusters.cluster import REGISTRY_LOGIN, Cluster
from clusters.nodes import GpuPool, Taint
from core import manifests
from jobs.model.job import START_TIMEOUT, TrainingJob
from jobs.model.names import OUTPUT_DIR
from jobs.model.parts import Toleration
from jobs.plan import shares

GROWN_SECONDS = 1800
"""Start timeout for a job on autoscaled nodes: time for the autoscaler to add two nodes
(`max-node-provision-time`, 15 minutes each,
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md)."""
FALLBACK_SECONDS = 2700
"""Start timeout for a job whose nodes have a fallback pool, which the autoscaler uses only when its
attempts in the first pool have timed out (https://github.com/kubernetes/autoscaler/issues/8323):
time for three attempts of 15 minutes."""
_FILE = Path(__file__).with_name("gpu_variables.yaml")
(_VARIABLES,) = manifests.rendered(_FILE, outputs=OUTPUT_DIR)
_TIMEOUT = "--timeout"
"""The option that sets how many minutes a catalogue program waits for the other ranks."""


def adapt(job: TrainingJob, cluster: Cluster) -> TrainingJob:
    """Return `job` with what its cluster requires; the job's own settings take precedence."""
    job = on_gpu_nodes(job, cluster.gpus)
    if cluster.identity is not None:
        job = replace(job, labels={**cluster.identity.labels, **job.labels})
    if job.image is not None and job.image in cluster.mirrors:
        job = replace(job, image=cluster.mirrors[job.image])
    # Kubernetes adds the service account's pull Secrets only to pods that specify none
    # (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/).
    if cluster.pull_secret is not None and job.pull_secrets:
        job = replace(job, pull_secrets=tuple(dict.fromkeys((*job.pull_secrets, REGISTRY_LOGIN))))
    return job


def on_gpu_nodes(job: TrainingJob, pool: GpuPool | None) -> TrainingJob:
    """Return `job` set up for the nodes in `pool`; a job without GPUs is returned unchanged."""
    if pool is None or not wants_gpus(job):
        return job
    variables = dict(_VARIABLES)
    if pool.interface is not None:
        # With `=`, NCCL matches the exact name instead of a prefix. Gloo does not support `=`.
        variables["NCCL_SOCKET_IFNAME"] = f"={pool.interface}"
        variables["GLOO_SOCKET_IFNAME"] = pool.interface
    if pool.min_nodes == 0 or (pool.max_nodes or 0) > pool.min_nodes:
        job = _with_time_to_grow(job, FALLBACK_SECONDS if pool.fallback else GROWN_SECONDS)
    tolerations = (
        Toleration(key=taint.key, value=taint.value, effect=taint.effect)
        for taint in pool.taints
        if not any(_tolerates(each, taint) for each in job.tolerations)
    )
    return replace(
        job,
        node_selector={**pool.labels, **job.node_selector},
        tolerations=(*job.tolerations, *tolerations),
        env={**variables, **job.env},
    )


def wants_gpus(job: TrainingJob) -> bool:
    """Return whether any replica of `job` requests GPUs."""
    return any(each.gpus > 0 for each in shares(job))


def _with_time_to_grow(job: TrainingJob, seconds: int) -> TrainingJob:
    """Return `job` with a start timeout that allows for adding nodes, unless the job sets one."""
    start = min(seconds, job.timeout)
    if job.start_timeout != START_TIMEOUT or start <= START_TIMEOUT:
        return job
    has_timeout = any(word.partition("=")[0] == _TIMEOUT for word in job.args)
    # Otherwise rank 0 would give up on the others while their node is being created.
    minutes = () if job.module is None or has_timeout else (_TIMEOUT, str(start // 60))
    return replace(job, start_timeout=start, args=(*job.args, *minutes))


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether pods with `toleration` tolerate `taint` without a time limit."""
    # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    if toleration.toleration_seconds is not None or toleration.effect not in {None, taint.effect}:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {None, taint.key}
    value = "" if toleration.value is None else toleration.value
    return (toleration.key, value) == (taint.key, taint.value)
