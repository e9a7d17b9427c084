"""minikube's flags, and what it prints. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from core.process import json_map

RUNTIME = "containerd"
"""Of the containers, as in every other kind of cluster: docker itself knows no image by a digest
that it has not pulled."""
_SHAPE: Mapping[str, str] = {
    "driver": "--driver",
    "cpus": "--cpus",
    "memory": "--memory",
    "diskSize": "--disk-size",
    "nodes": "--nodes",
    "kubernetesVersion": "--kubernetes-version",
}
_EVERY_TIME = (
    "--keep-context",
    "--embed-certs",
    "--wait=all",
    "--interactive=false",
    "--output=json",
)
_STEP, _ERROR = "io.k8s.sigs.minikube.step", "io.k8s.sigs.minikube.error"


def create_flags(inputs: Mapping[str, Any]) -> list[str]:
    """Return the flags of `minikube start` for a resource's inputs.

    https://minikube.sigs.k8s.io/docs/commands/start/, at second hand: quoted elsewhere, and
    tried on a double of minikube alone.
    """
    flags = [f"{flag}={inputs[key]}" for key, flag in _SHAPE.items() if inputs.get(key) is not None]
    if ports := inputs.get("ports"):
        flags.append(f"--ports={','.join(ports)}")
    return [*flags, f"--container-runtime={RUNTIME}", *start_flags(inputs)]


def start_flags(inputs: Mapping[str, Any]) -> list[str]:
    """Return the flags that start the existing profile as it was made."""
    flags = ["--force"] if inputs.get("force") else []
    if mount := inputs.get("mount"):
        flags += ["--mount", f"--mount-string={mount['host']}:{mount['node']}"]
    return [*flags, *_EVERY_TIME]


def step(line: str) -> str | None:
    """Return what minikube is at, by a line of its output in JSON; None when the line has no step.

    https://minikube.sigs.k8s.io/docs/contrib/json_output/
    """
    event = json_map(line)
    if event.get("type") != _STEP:
        return None
    data = event.get("data") or {}
    place = f"{data.get('currentstep', '?')}/{data.get('totalsteps', '?')}"
    return f"minikube {place}: {' '.join(str(data.get('message', '')).split())}"


def failure(lines: Iterable[str]) -> str | None:
    """Return why it failed, and what it advises; None when it reports neither."""
    data = [each["data"] for each in map(json_map, lines) if each.get("type") == _ERROR]
    texts = [
        " ".join(str(text).split())
        for each in data
        for text in (each.get("message"), each.get("advice"))
        if text
    ]
    return "; ".join(texts) or None
