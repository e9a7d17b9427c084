"""Build a job's manifest, which meets the `restricted` Pod Security Standard.

The preview, the admission check and the submission all use this manifest.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from core.manifests import MANAGED_BY, read
from jobs.model import inputs, pytorchjob
from jobs.model.names import CONTAINER, INPUTS_CONTAINER, JOB_LABEL, RUN_LABEL, WORK
from jobs.model.parts import Toleration
from jobs.model.places import prepare
from jobs.model.program import Role, Share, environment, program, roles, share
from jobs.model.submission import Submission
from jobs.model.volumes import mounts, pod_volumes

_RESTRICTED = read(Path(__file__).with_name("restricted.yaml"))
_TOLERATIONS = TypeAdapter(tuple[Toleration, ...])
OF_THE_PROGRAM = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH"})
"""Variables that are valid only in the image that the job's program runs in."""


def manifest(
    submission: Submission,
    *,
    facts: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Return the PyTorchJob that runs a job.

    `labels` and `annotations` are the run's; pods get only the label with its ID. `facts` is a
    tracked run's provenance (`jobs.records.history.provenance`).

    Raises:
        RuntimeError: the jobs before this one did not produce files that it needs.
    """
    job = submission.job
    own = {**job.labels, **MANAGED_BY, JOB_LABEL: job.name}
    of_pods = {**own, **{name: labels[name] for name in {RUN_LABEL} & labels.keys()}}
    key = checkpoint_key(submission)

    def template(role: Role) -> dict[str, Any]:
        pod = _pod(submission, share(job, role))
        prepare(pod, submission, role, key, facts)
        return {
            "metadata": {
                "labels": dict(of_pods),
                # A service mesh sidecar would never exit, and would intercept the ranks' traffic.
                "annotations": {"sidecar.istio.io/inject": "false", **job.annotations},
            },
            "spec": pod,
        }

    replicas = {
        role: {"replicas": count, "template": template(role)} for role, count in roles(job).items()
    }
    queue = {} if job.queue is None else {pytorchjob.QUEUE_LABEL: job.queue}
    noted = {**job.annotations, **annotations}
    metadata = {
        "name": job.name,
        "namespace": submission.namespace,
        "labels": {**own, **labels, **queue},
        **({"annotations": noted} if noted else {}),
    }
    return pytorchjob.document(job, metadata, replicas)


def checkpoint_key(submission: Submission) -> str:
    """Return a hash of a program, its arguments and its inputs, which names its checkpoints."""
    # A renamed job resumes from its checkpoints, so variables and hosts use its original name.
    submission = replace(submission, job=replace(submission.job, name=submission.job.origin))
    first = share(submission.job, next(iter(roles(submission.job))))
    program_of = {
        "containers": [
            {part: container.get(part) for part in ("image", "command", "args", "env")}
            for container in (_container(submission, first), *_fetching(submission, first))
        ],
        "files": [] if submission.script is None else [submission.script["name"]],
    }
    try:
        text = json.dumps(program_of, sort_keys=True)
    except TypeError:
        return "<known later>"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pod(submission: Submission, share: Share) -> dict[str, Any]:
    job = submission.job
    optional = {
        "nodeSelector": job.node_selector,
        "tolerations": _TOLERATIONS.dump_python(
            job.tolerations, mode="json", by_alias=True, exclude_none=True
        ),
        "imagePullSecrets": [{"name": name} for name in job.pull_secrets],
        "priorityClassName": job.priority_class,
        "initContainers": _fetching(submission, share),
    }
    return {
        "serviceAccountName": submission.account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _RESTRICTED["pod"],
        **{key: value for key, value in optional.items() if value},
        "containers": [_container(submission, share)],
        "volumes": [
            *pod_volumes(job, share, submission.script),
            *inputs.volumes(job, submission.input_volumes, keeps_data=submission.keeps_data),
        ],
    }


def _container(submission: Submission, share: Share) -> dict[str, Any]:
    job, script = submission.job, submission.script
    # The data cache is read-only for programs.
    cache = [{**inputs.CACHE_MOUNT, "readOnly": True}] if inputs.needs_cache(job) else []
    # An image has its own WORKDIR, and the launcher sets a script's directory.
    place = job.working_dir if job.script is None and job.module is None else WORK
    return {
        "name": CONTAINER,
        "image": submission.image,
        "imagePullPolicy": job.pull_policy,
        **program(job, share, None if script is None else script["entry"]),
        "env": environment(job, share),
        "resources": share.manifest(),
        "volumeMounts": [*mounts(job, script), *cache],
        **({} if place is None else {"workingDir": place}),
        **_RESTRICTED["container"],
    }


def _fetching(submission: Submission, share: Share) -> list[dict[str, Any]]:
    """Return the init container that fetches files, if the job needs any."""
    job, others = submission.job, submission.input_volumes
    if not job.fetches:
        return []
    container = {
        "name": INPUTS_CONTAINER,
        "image": submission.image if submission.fetch_image is None else submission.fetch_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "slipway_trainer.inputs"],
        "args": inputs.arguments(job, others, submission.artifacts),
        "env": [each for each in environment(job, share) if each["name"] not in OF_THE_PROGRAM],
        # A pod requests the maximum over its init and main containers, so this one adds nothing.
        "resources": replace(share, gpus=0).manifest(),
        "volumeMounts": [*mounts(job, None), *inputs.mounts(job, others)],
        "workingDir": WORK,
        **_RESTRICTED["container"],
    }
    return [container]
