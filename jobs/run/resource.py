"""The Pulumi resources for a run, its claims and its gate; their handlers are in this folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from clusters.cloud_reports import RefusedPulls, as_input
from core import tokens
from core.manifests import Manifest, marked
from jobs.model.job import TrainingJob
from jobs.model.submission import Submission
from jobs.run.gate import limits

WAITERS_PACKAGES = Path(__file__).with_name("waiter.txt")
"""The file that pins the packages that a waiter needs on top of those in the trainer image."""


class PyTorchJob(pulumi.CustomResource):
    """A training run; creating it trains until the run ends.

    A submission's images and artifacts may be outputs of other resources. `cost` is the cost of
    its nodes (`infra.cost.estimates.of_jobs`), and `pulls` states which refused image pulls may
    still be authorised. `waiter` is the image for the waiter in the cluster (`jobs.run.ledger`), or
    None if `up` itself waits. `hook` contains the fields of a `jobs.run.notify.Hook`.
    """

    result: Output[dict[str, Any]]
    """The run's result; `state` is one of `jobs.result.State`."""

    def __init__(  # noqa: PLR0913  # the submission, and settings of `up`
        self,
        submission: Submission,
        *,
        kubeconfig: Input[str],
        cost: Mapping[str, Any] | None,
        pulls: RefusedPulls | None,
        hook: Mapping[str, Any],
        waiter: Input[str] | None = None,
        opts: ResourceOptions,
    ) -> None:
        properties = {
            **submission.inputs(),
            "kubeconfig": Output.secret(kubeconfig),
            "cost": cost,
            "waiter": waiter,
            "hook": Output.secret(hook) if hook else None,
            **as_input(pulls),
            "result": None,
        }
        own = ResourceOptions(
            additional_secret_outputs=["kubeconfig"],
            # With `--replace` the engine does not call `diff`, so the existing job would be
            # adopted and then deleted.
            delete_before_replace=True,
            aliases=[pulumi.Alias(name) for name in submission.job.was],
        )
        name = submission.job.name
        super().__init__(tokens.PYTORCH_JOB, name, properties, ResourceOptions.merge(opts, own))


class Claim(pulumi.CustomResource):
    """A volume claim, created or adopted; if `keep` is set, it outlives this resource."""

    def __init__(
        self,
        manifest: Manifest,
        *,
        kubeconfig: Input[str],
        keep: bool = False,
        keeps_class: bool = False,  # otherwise another storage class replaces it, without its files
        after: Sequence[pulumi.Resource],
    ) -> None:
        properties = {"manifest": marked(manifest), "kubeconfig": Output.secret(kubeconfig)}
        opts = ResourceOptions(
            additional_secret_outputs=["kubeconfig"],
            retain_on_delete=keep,
            ignore_changes=["manifest.spec.storageClassName"] if keeps_class else None,
            # The replacement has the same name.
            delete_before_replace=True,
            depends_on=after,
        )
        super().__init__(tokens.CLAIM, manifest["metadata"]["name"], properties, opts)


class Gate(pulumi.CustomResource):
    """Fails `up` if a job's run failed or did not meet a limit; it is named after the job."""

    job: Output[str]

    def __init__(self, job: TrainingJob, run: PyTorchJob) -> None:
        properties = {"job": job.name, **limits(job), "result": run.result}
        # Explicit, since the engine loses the dependency through `result` when it skips the run.
        opts = ResourceOptions(depends_on=[run], aliases=[pulumi.Alias(name) for name in job.was])
        super().__init__(tokens.GATE, job.name, properties, opts)
