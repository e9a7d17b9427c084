"""Whether the stack's GPUs are known to work: by a pod that tried one, or by a job that ran."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Output

from infra.training import Run
from jobs.accelerated import wants_gpus


def output(tried: Output[dict[str, Any]], runs: Mapping[str, Run]) -> Output[dict[str, Any]]:
    """Return the stack's output `cuda`.

    Args:
        tried: What the pod found (`infra.gpus.component.Gpus.cuda`).
        runs: The stack's, by name; those with GPUs tell as well.
    """
    results = {name: run.result for name, run in runs.items() if wants_gpus(run.job)}

    def told(known: Mapping[str, Any]) -> dict[str, Any]:
        found = judged(known["tried"], known["results"])
        # What a job found out is news; the rest is known, and has been told of where it was looked.
        if found["state"] == "unverified" and found != known["tried"]:
            pulumi.log.warn(f"cuda: unverified: {found['reason']}")
        return found

    return Output.all(tried=tried, results=results).apply(told)


def judged(
    tried: Mapping[str, Any] | None, results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Return whether GPUs are known to calculate, and by what; otherwise why not. Pure.

    Args:
        tried: What the pod found; None when it was not to be, for a reason that is told elsewhere.
        results: Of the jobs that ask for GPUs; None of one that did not run.
    """
    before = tried or {"state": "unverified", "reason": "no GPU was tried"}
    if before["state"] == "verified":
        return dict(before)
    ran = {name: result for name, result in results.items() if result is not None}
    for name, result in ran.items():
        if result.get("device") == "cuda":
            device = {"device_name": result["device_name"]} if "device_name" in result else {}
            kept = {key: before[key] for key in ("nodes", "gpus") if key in before}
            return {"state": "verified", "by": f"job {name}", **device, **kept}
    on_cpu = [name for name, result in ran.items() if result.get("device") == "cpu"]
    if on_cpu:
        reason = (
            f"job {on_cpu[0]} had its GPUs from Kubernetes and calculated on the CPU: the capacity "
            "is not real, or the job's image has no CUDA, or it was told so (--no-cuda)"
        )
        return {**before, "reason": reason}
    return dict(before)
