"""The program's side of a run, its claims and its gate; their lives are beside it."""

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
"""What a waiter needs over the trainer's image."""


class PyTorchJob(pulumi.CustomResource):
    """A training run: it is created by training to the end.

    A submission's images and artifacts may be outputs of other resources; `cost` is that of its
    nodes (`infra.cost.estimates.of_jobs`), `pulls` those that are waited for when refused, and
    `waiter` the image of what waits in the cluster (`jobs.run.ledger`), unless `up` itself does.
    `hook` has what is told of its end, a `jobs.run.notify.Hook`, and in which `stack` it is.
    """

    result: Output[dict[str, Any]]
    """How it ended and what it returned; `state` is one of `jobs.result.State`."""

    def __init__(  # noqa: PLR0913  # what is submitted, and what else `up` knows about it
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
            # With `--replace` the engine does not call the provider. The existing job would be
            # taken up again, and then deleted.
            delete_before_replace=True,
            aliases=[pulumi.Alias(name) for name in submission.job.was],
        )
        name = submission.job.name
        super().__init__(tokens.PYTORCH_JOB, name, properties, ResourceOptions.merge(opts, own))


class Claim(pulumi.CustomResource):
    """A claim that is made for a job, or taken up again; with `keep` it stays with its files."""

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

    job: Output[str]

    def __init__(self, job: TrainingJob, run: PyTorchJob) -> None:
        properties = {"job": job.name, **limits(job), "result": run.result}
        # An explicit dependency: the engine forgets whose result it is when it skips the run.
        aliases = [pulumi.Alias(name) for name in job.was]
        opts = ResourceOptions(depends_on=[run], aliases=aliases)
        super().__init__(tokens.GATE, job.name, properties, opts)
