"""The program's side of a run, its claims and its gate; their lives are in `jobs/run`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions
from pydantic import TypeAdapter

from core import tokens
from core.manifests import Manifest, marked
from jobs.run.gate import LIMITS, limits
from jobs.spec import TrainingJob
from jobs.spec.kept import VOLUME_URL, checkpoints, outputs_url

_JUDGED = frozenset({*LIMITS, "maxCost"})
"""Fields of a declaration that judge a run: another one is no change of it."""


class PyTorchJob(pulumi.CustomResource):
    """A training run: it is created by training to the end.

    Args:
        job: What to train.
        manifest: `jobs.spec.manifest` of it.
        kubeconfig: Its content.
        artifacts: What its inputs are, by name (`jobs.spec.inputs.found`); None without inputs.
        place: Where the stack keeps checkpoints, and rank 0's files unless the job has `outputs`
            (`jobs.spec.kept`); None for nowhere.
        tracking: Where it is tracked (`jobs.spec.tracked.of_job`); None for nowhere.
        cost: What its nodes cost, for a preview to show (`infra.cost.estimates.of_jobs`).
    """

    result: Output[dict[str, Any]]
    """How it ended and what it returned; `state` is Succeeded, Failed, TimedOut or CannotStart."""

    def __init__(  # noqa: PLR0913  # two of a job, five of what is around it, and options
        self,
        job: TrainingJob,
        manifest: Mapping[str, Any],
        *,
        kubeconfig: Input[str],
        artifacts: Input[Mapping[str, Any]] | None,
        place: str | None,
        tracking: Mapping[str, str] | None,
        cost: Mapping[str, Any] | None,
        opts: ResourceOptions,
    ) -> None:
        is_kept = place is not None and job.outputs is None
        properties = {
            **run_properties(job, manifest, place),
            "kubeconfig": Output.secret(kubeconfig),
            # Not in the manifest: the same artifact at another place is no other input.
            "artifacts": artifacts,
            # Neither are these: where files are kept, or a run is tracked, alters no result.
            "kept": outputs_url(str(place), job.name) if is_kept else None,
            "tracking": tracking,
            "cost": cost,
            "result": None,
        }
        own = ResourceOptions(
            additional_secret_outputs=["kubeconfig"],
            # With `--replace` the engine does not call the provider. The existing job would be
            # taken up again, and then deleted.
            delete_before_replace=True,
        )
        super().__init__(tokens.PYTORCH_JOB, job.name, properties, ResourceOptions.merge(opts, own))


def run_properties(
    job: TrainingJob, manifest: Mapping[str, Any], place: str | None = VOLUME_URL
) -> dict[str, Any]:
    """Return the inputs of a run that follow from its job, and where its stack keeps files."""
    kept = checkpoints(job, place)
    return {
        "namespace": manifest["metadata"]["namespace"],
        "manifest": manifest,
        "declared": declared(job),
        "timeoutSeconds": job.timeout,
        "startTimeoutSeconds": job.start_timeout,
        "retries": job.retries,
        "onCancel": job.on_cancel,
        **({} if kept is None else {"checkpoint": kept}),
        **({} if job.retry_on is None else {"retryOn": list(job.retry_on)}),
        **({} if (every := job.outputs_every) is None else {"outputsEvery": every}),
        **({} if (least := job.min_gpu_utilization) is None else {"minGpuUtilization": least}),
    }


def declared(job: TrainingJob) -> dict[str, Any]:
    """Return a job's declaration, spelt as in the stack's file; empty values are left out."""
    dumped = TypeAdapter(TrainingJob).dump_python(job, mode="json", by_alias=True)
    return {
        key: value
        for key, value in dumped.items()
        if key not in _JUDGED and value not in (None, {}, [])
    }


class Claim(pulumi.CustomResource):
    """A claim that is made for a job, and taken up again by a job that comes back.

    `manifest` gets its stack's mark; with `keep` it and its files stay when it is not declared.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        kubeconfig: Input[str],
        keep: bool = False,
        after: Sequence[pulumi.Resource],
    ) -> None:
        properties = {"manifest": marked(manifest), "kubeconfig": Output.secret(kubeconfig)}
        opts = ResourceOptions(
            additional_secret_outputs=["kubeconfig"],
            retain_on_delete=keep,
            # Another one has the same name.
            delete_before_replace=True,
            depends_on=after,
        )
        super().__init__(tokens.CLAIM, manifest["metadata"]["name"], properties, opts)


class Gate(pulumi.CustomResource):
    """Fails an `up` whose run did not succeed, or not well enough; it has the job's name."""

    def __init__(self, job: TrainingJob, run: PyTorchJob) -> None:
        properties = {"job": job.name, **limits(job), "result": run.result}
        # An explicit dependency: the engine forgets whose result it is when it skips the run.
        opts = ResourceOptions(depends_on=[run])
        super().__init__(tokens.GATE, job.name, properties, opts)
