"""The program's side of a run and its gate; their lives are in `jobs/run.py` and `jobs/gate.py`."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from jobs.spec import TrainingJob


class PyTorchJob(pulumi.CustomResource):
    """A training run: it is created by training to the end.

    Args:
        job: What to train.
        manifest: `jobs.spec.manifest` of it.
        kubeconfig: The cluster's, its content.
    """

    result: Output[dict[str, Any]]
    """How it ended and what it returned; `state` is Succeeded, Failed, TimedOut or CannotStart."""

    def __init__(
        self,
        job: TrainingJob,
        manifest: Mapping[str, Any],
        *,
        kubeconfig: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        properties = {
            "kubeconfig": Output.secret(kubeconfig),
            "namespace": manifest["metadata"]["namespace"],
            "manifest": manifest,
            "timeoutSeconds": job.timeout,
            "startTimeoutSeconds": job.start_timeout,
            "result": None,
        }
        secret = ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(
            "slipway:jobs:PyTorchJob", job.name, properties, ResourceOptions.merge(opts, secret)
        )


class Gate(pulumi.CustomResource):
    """Fails an `up` whose run did not succeed, or not well enough.

    Args:
        job: The name of the job, and of this resource.
        result: `PyTorchJob.result`.
        min_accuracy: The least accuracy to let pass, one for all data sets or one for each by
            its name; None to judge none.
    """

    def __init__(
        self,
        job: str,
        *,
        result: Input[Mapping[str, Any]],
        min_accuracy: float | Mapping[str, float] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        properties = {"job": job, "result": result, "minAccuracy": min_accuracy}
        super().__init__("slipway:jobs:Gate", job, properties, opts)
