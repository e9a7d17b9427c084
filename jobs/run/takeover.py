"""Convert the states of runs from before November 2026, which contained the whole manifest."""

import json
from collections.abc import Mapping
from typing import Any

from core.manifests import KEPT_DIRECTORY
from jobs.model.names import INPUTS_CONTAINER, SCRIPT
from jobs.model.pytorchjob import templates

_SAME = ("kubeconfig", "artifacts", "tracking", "result")


def upgraded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's inputs or state in the format of `jobs.model.submission`."""
    if "manifest" not in state:
        return dict(state)
    job, pod = state["declared"], next(iter(templates(state["manifest"]).values()))["spec"]
    container = pod["containers"][0]
    inputs = {
        "job": job,
        "image": container["image"],
        "namespace": state["namespace"],
        "account": pod["serviceAccountName"],
        "place": _place(state),
        "script": _script(pod, container),
    }
    for each in pod.get("initContainers", ()):
        if each["name"] == INPUTS_CONTAINER:
            inputs |= {"fetchImage": each["image"], "inputVolumes": _input_volumes(pod, each)}
    inputs |= {name: state[name] for name in _SAME if name in state}
    return {name: value for name, value in inputs.items() if value is not None}


def _place(state: Mapping[str, Any]) -> str | None:
    if "kept" in state:
        return str(state["kept"]).removesuffix(f"/outputs/{state['declared']['name']}")
    if "checkpoint" not in state or state["declared"].get("checkpoint", {}).get("url"):
        return None
    return str(state["checkpoint"].get("url", f"file://{KEPT_DIRECTORY}"))


def _script(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any] | None:
    for volume in pod["volumes"]:
        if (files := volume.get("configMap")) is not None:
            items = {each["key"]: each["path"] for each in files["items"]}
            entry = container["command"][-1].removeprefix(f"{SCRIPT}/")
            return {"name": files["name"], "entry": entry, "items": items}
    return None


def _input_volumes(
    pod: Mapping[str, Any], fetching: Mapping[str, Any]
) -> dict[str, dict[str, str]] | None:
    claims = {
        each["name"]: each["persistentVolumeClaim"]["claimName"]
        for each in pod["volumes"]
        if "persistentVolumeClaim" in each
    }
    names = {each["mountPath"]: each["name"] for each in fetching["volumeMounts"]}
    volumes = {}
    for each in map(json.loads, fetching["args"]):
        if "mounted" in each:
            path, here = each["mounted"]
            volumes[each["name"]] = {"claim": claims[names[here]], "mountPath": path}
    return volumes or None
