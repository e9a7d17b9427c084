"""How a run is tracked, and the variables by which its pods know. Pure.

All of it is added when a job is submitted: where a run is tracked can't alter its result. In each
pod the agent sends the ranks' events on (`slipway_trainer.agent`), by these variables:

    SLIPWAY_TRACKING             mlflow, wandb or tensorboard
    SLIPWAY_TRACKING_URL         of the server, as pods reach it
    SLIPWAY_TRACKING_ADDRESS     of the server, as a browser reaches it
    SLIPWAY_TRACKING_EXPERIMENT  <stack>/<job>
    SLIPWAY_TRACKING_FACTS       what trains, as JSON: revision, image, data, settings
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

_PREFIX = "SLIPWAY_TRACKING"


def of_job(place: Mapping[str, str] | None, stack: str, job: str) -> dict[str, str] | None:
    """Return how the runs of a job are tracked, as an input of its run; None for not at all.

    `place` has the `kind` of what runs are sent to, and where there is a server, its `url` for pods
    and its `address` for browsers.
    """
    return None if place is None else {**place, "experiment": f"{stack}/{job}"}


def variables(
    tracking: Mapping[str, str] | None, facts: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the variables of a tracked run's pods; none where it is not tracked.

    `facts` say what trains (`jobs.records.provenance`); a preview leaves them out.
    """
    if tracking is None:
        return {}
    known = {f"{_PREFIX}_{key.upper()}": value for key, value in tracking.items() if key != "kind"}
    described = {} if facts is None else {f"{_PREFIX}_FACTS": json.dumps(facts, sort_keys=True)}
    return {_PREFIX: tracking["kind"], **known, **described}


def tracked(manifest: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return a PyTorchJob whose pods have these variables besides."""
    complete = copy.deepcopy(dict(manifest))
    added = [{"name": name, "value": value} for name, value in variables.items()]
    for replicas in complete["spec"]["pytorchReplicaSpecs"].values():
        replicas["template"]["spec"]["containers"][0]["env"] += added
    return complete
