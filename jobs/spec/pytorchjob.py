"""The PyTorchJob that runs a training job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.spec.inputs import Fetching
from jobs.spec.job import TrainingJob
from jobs.spec.mounts import MountedScript
from jobs.spec.names import API_VERSION
from jobs.spec.pod import Surroundings, labels, template
from jobs.spec.resources import roles, share

if TYPE_CHECKING:
    from pulumi import Input

_BACKSTOP_SECONDS = 120


def manifest(  # noqa: PLR0913 - all but the job by name
    job: TrainingJob,
    *,
    namespace: str,
    service_account: str,
    trainer_image: Input[str],
    script: MountedScript | None = None,
    fetching: Fetching | None = None,
) -> dict[str, Any]:
    """Return the PyTorchJob that runs `job`.

    Args:
        job: What to run.
        namespace: Where.
        service_account: Of its pods; its token is not mounted.
        trainer_image: The image of a `job` that has none of its own; of one with a `build`
            what was built.
        script: What its `script` has become, where it has one: `jobs.script.Script.mounted`.
        fetching: What it takes to fetch its `inputs`; by `trainer_image`, and from stores that
            every job can reach, unless said.

    Raises:
        ValueError: `script` is missing, or the job has none.
    """
    if (job.script is None) != (script is None):
        raise ValueError(f"job {job.name}: `script` goes with a job that has one, and it must")
    fetching = Fetching(trainer_image) if fetching is None else fetching
    around = Surroundings(service_account, trainer_image, script, fetching)
    spec = {
        "runPolicy": _run_policy(job),
        # The operator's own default is "auto", which torchrun takes for the node's cores.
        "nprocPerNode": str(job.processes_per_node),
        "pytorchReplicaSpecs": {
            role: {
                "replicas": count,
                "restartPolicy": job.restart_policy,
                "template": template(job, share(job, role), around),
            }
            for role, count in roles(job).items()
        },
    }
    if job.elastic is not None:
        spec["elasticPolicy"] = {
            "minReplicas": job.elastic.least(job.workers),
            "maxReplicas": job.elastic.most(job.workers),
            "maxRestarts": job.elastic.max_restarts,
            "rdzvBackend": "c10d",
        }
    metadata: dict[str, Any] = {"name": job.name, "namespace": namespace, "labels": labels(job)}
    if job.annotations:
        metadata["annotations"] = dict(job.annotations)
    return {"apiVersion": API_VERSION, "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def _run_policy(job: TrainingJob) -> dict[str, Any]:
    policy: dict[str, Any] = {
        # Pods stay: their logs and exit codes are to be read after the end, too.
        "cleanPodPolicy": job.clean_pod_policy,
        "backoffLimit": job.max_restarts,
        # `pulumi up` ends a run at its timeout; this stops one that nobody waits for.
        "activeDeadlineSeconds": job.timeout + _BACKSTOP_SECONDS,
    }
    if job.ttl_seconds_after_finished is not None:
        policy["ttlSecondsAfterFinished"] = job.ttl_seconds_after_finished
    return policy
