"""kind's own configuration of a cluster, rendered and checked by kind. Changes nothing.

https://kind.sigs.k8s.io/docs/user/configuration/
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clusters.local.engine import CHOICE
from core.process import CommandFailed, run

API_VERSION = "kind.x-k8s.io/v1alpha4"
_ANSWERS = """\
#!/bin/sh
# Stands for docker while kind checks a configuration, so that it needs none and makes nothing.
case "$1" in
  info) echo '{}' ;;
  ps | inspect) ;;
  *) exit 1 ;;
esac
"""
_BEGINS = "Creating cluster"
"""What kind says once it has found nothing wrong."""


def document(
    control_planes: int,
    workers: int,
    *,
    node: Mapping[str, Any],
    ports: Sequence[Mapping[str, Any]],
    reserved: Mapping[str, str],
) -> dict[str, Any]:
    """Return the configuration of a cluster.

    Args:
        control_planes: How many nodes run Kubernetes itself.
        workers: How many more there are; without any, jobs run on the others.
        node: What every node has besides, in kind's words.
        ports: Of the first node, which are ports of this machine, too, in kind's words.
        reserved: What each node keeps free of pods, in the kubelet's words.
    """
    roles = ["control-plane"] * control_planes + ["worker"] * workers
    made = [{"role": role, **node} for role in roles]
    if ports:
        made[0]["extraPortMappings"] = [dict(each) for each in ports]
    whole: dict[str, Any] = {"kind": "Cluster", "apiVersion": API_VERSION, "nodes": made}
    if reserved:
        kubelet = {"kind": "KubeletConfiguration", "systemReserved": dict(reserved)}
        whole["kubeadmConfigPatches"] = [yaml.safe_dump(kubelet, sort_keys=False)]
    return whole


def problem(program: Path, name: str, config: Mapping[str, Any]) -> str | None:
    """Return what kind itself finds wrong with a configuration; None when nothing is.

    kind looks at it after it has asked its container engine for what there is, and before it asks
    for anything to be made. So that no engine is needed, and none is changed, a few lines of shell
    answer those questions and refuse all else.

    https://github.com/kubernetes-sigs/kind/blob/v0.31.0/pkg/cluster/internal/create/create.go

    Args:
        program: kind.
        name: Of the cluster.
        config: As of `document`.
    """
    with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
        docker, file = Path(directory, "docker"), Path(directory, "kind.yaml")
        docker.write_text(_ANSWERS)
        docker.chmod(0o700)
        file.write_text(yaml.safe_dump(dict(config), sort_keys=False))
        command = ("create", "cluster", "--name", name, "--config", str(file))
        own = {"PATH": directory, "HOME": directory, CHOICE: "docker"}
        said: list[str] = []
        try:
            run(
                *(str(program), *command, "--kubeconfig", str(Path(directory, "kubeconfig"))),
                variables=own,
                line=said.append,
            )
        except CommandFailed as error:
            if any(_BEGINS in each for each in said):
                return None
            return _reason(str(error))
    return None


def _reason(text: str) -> str:
    """Return what kind says is wrong, without what it was doing."""
    error = re.search(r"ERROR: (?:failed to create cluster: )?(.*)", text, re.DOTALL)
    return " ".join((text if error is None else error[1]).split())
