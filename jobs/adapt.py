"""All that a cluster requires of a job: its GPU nodes, registry mirrors and identity. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from clusters.cluster import Cluster
from clusters.pools import GpuPool, Taint
from jobs.plan import shares
from jobs.spec import Toleration, TrainingJob
from jobs.spec.consistency import START_TIMEOUT
from jobs.spec.names import OUTPUT_DIR

GROWN_SECONDS = 1800
"""How long all ranks may take to start where nodes have to be made first.

The autoscaler gives a node up after 15 minutes and requests another one (`max-node-provision-time`,
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md): time for two.
"""
_TIMEOUT = "--timeout"
"""The catalogue's programs' option: for how many minutes to wait for other ranks."""


def adapt(job: TrainingJob, cluster: Cluster) -> TrainingJob:
    """Return `job` with all that `cluster` requires of its jobs.

    That is what `on_gpu_nodes` adds, the labels of the cluster's identity, its mirror of the job's
    image, and its pull Secret beside those of the job. What the job has itself stays.
    """
    job = on_gpu_nodes(job, cluster.gpus)
    if cluster.identity is not None:
        job = replace(job, labels={**cluster.identity.labels, **job.labels})
    if job.image is not None and job.image in cluster.mirrors:
        job = replace(job, image=cluster.mirrors[job.image])
    # A job without pull Secrets has its account's, which Kubernetes leaves out for one with some
    # (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/).
    secret = None if cluster.pull_secret is None else cluster.pull_secret.name
    if secret is not None and job.pull_secrets and secret not in job.pull_secrets:
        job = replace(job, pull_secrets=(*job.pull_secrets, secret))
    return job


def on_gpu_nodes(job: TrainingJob, pool: GpuPool | None) -> TrainingJob:
    """Return `job` with what it takes to run on the nodes of `pool`.

    It gets the pool's labels, a toleration of each of its taints, and the variables of
    `variables`; where nodes have to be made first, time for that. What the job has itself stays.

    Args:
        job: What to run; one without GPUs stays as it is.
        pool: The cluster's nodes with GPUs; None without any.
    """
    if pool is None or not wants_gpus(job):
        return job
    if may_grow(pool):
        job = _with_time_to_grow(job)
    return replace(
        job,
        node_selector={**pool.labels, **job.node_selector},
        tolerations=(*job.tolerations, *_tolerations(job, pool)),
        env={**variables(pool), **job.env},
    )


def wants_gpus(job: TrainingJob) -> bool:
    """Return whether a replica of `job` requests GPUs."""
    return any(each.gpus > 0 for each in shares(job))


def may_grow(pool: GpuPool) -> bool:
    """Return whether nodes of `pool` may have to be made when jobs request them."""
    return pool.min_nodes == 0 or (pool.max_nodes is not None and pool.max_nodes > pool.min_nodes)


def variables(pool: GpuPool) -> dict[str, str]:
    """Return the variables that configure how NCCL, Gloo and torch communicate in the cluster.

    NCCL's: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html; torch's:
    https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html.
    """
    known = {
        # Its version, and whatever goes wrong; without it an error is a number.
        "NCCL_DEBUG": "WARN",
        # A collective that times out ends the process, instead of leaving its peers to wait. It is
        # the default of today's torch; older ones, in users' images, had others.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
        # A process whose watchdog itself hangs, in a driver for example, ends after this time.
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "600",
        # On a timeout each rank writes which collective it was in, for its last 2000.
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{OUTPUT_DIR}/nccl_trace_rank_",
    }
    if pool.interface is not None:
        # With `=` NCCL takes this one alone, and not whatever begins like it. Gloo knows no `=`.
        known["NCCL_SOCKET_IFNAME"] = f"={pool.interface}"
        known["GLOO_SOCKET_IFNAME"] = pool.interface
    return known


def _with_time_to_grow(job: TrainingJob) -> TrainingJob:
    """Return `job` with time for nodes to be made, unless it has its own limit."""
    if job.start_timeout != START_TIMEOUT:
        return job
    start = min(GROWN_SECONDS, job.timeout)
    if start <= START_TIMEOUT:
        return job
    is_given = any(word.partition("=")[0] == _TIMEOUT for word in job.args)
    # The first rank that runs would give the others up while their node is still being made.
    minutes = () if job.module is None or is_given else (_TIMEOUT, str(start // 60))
    return replace(job, start_timeout=start, args=(*job.args, *minutes))


def _tolerations(job: TrainingJob, pool: GpuPool) -> Iterator[Toleration]:
    """Yield a toleration for each of the pool's taints that the job does not tolerate itself."""
    for taint in pool.taints:
        if not any(tolerates(each, taint) for each in job.tolerations):
            yield Toleration(key=taint.key, value=taint.value, effect=taint.effect)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether pods with `toleration` tolerate `taint` without a time limit.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    if toleration.toleration_seconds is not None:
        return False
    if toleration.effect not in {None, taint.effect}:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {None, taint.key}
    value = "" if toleration.value is None else toleration.value
    return (toleration.key, value) == (taint.key, taint.value)
