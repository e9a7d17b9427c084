"""`slipway:clusters:Kind`: a cluster of kind's as a resource of the local provider."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from clusters.kind.tool import KindTool
from clusters.local.engine import CHOICE
from clusters.local.handler import LocalHandler
from clusters.local.tool import find, missing
from core.handler import CheckFailure, Properties
from core.process import CommandFailed, run

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
"""The output of kind once it has found nothing wrong."""


class KindHandler(LocalHandler):
    """Inputs: `name`, `adopt`, and `config`, kind's own configuration."""

    type: ClassVar[str] = "slipway:clusters:Kind"
    program: ClassVar[str] = "kind"

    @property
    def shape(self) -> set[str]:
        return {"config"}

    def check(self, inputs: Properties) -> list[CheckFailure]:
        """Let kind itself look at its configuration, which needs no container engine."""
        if missing("kind") is not None:
            return []  # the preview warns, and `create` refuses
        reason = problem(find("kind"), inputs["name"], inputs["config"])
        return [] if reason is None else [CheckFailure("config", f"kind refuses it: {reason}")]

    def tool(self, inputs: Properties) -> KindTool:
        return KindTool(inputs["name"], inputs.get("config", {}))


def problem(program: Path, name: str, config: Mapping[str, Any]) -> str | None:
    """Return what kind itself finds wrong with a configuration; None when nothing is.

    kind checks it after it has listed what its container engine has, and before anything is made.
    So that no engine is needed, and none is changed, a few lines of shell answer those questions
    and refuse all else.

    https://github.com/kubernetes-sigs/kind/blob/v0.31.0/pkg/cluster/internal/create/create.go

    Args:
        program: kind.
        name: Of the cluster.
        config: As of `clusters.kind.cluster.config`.
    """
    with tempfile.TemporaryDirectory(prefix="slipway-kind-") as directory:
        docker, file = Path(directory, "docker"), Path(directory, "kind.yaml")
        docker.write_text(_ANSWERS)
        docker.chmod(0o700)
        file.write_text(yaml.safe_dump(dict(config), sort_keys=False))
        command = ("create", "cluster", "--name", name, "--config", str(file))
        own = {"PATH": directory, "HOME": directory, CHOICE: "docker"}
        lines: list[str] = []
        try:
            run(
                *(str(program), *command, "--kubeconfig", str(Path(directory, "kubeconfig"))),
                variables=own,
                line=lines.append,
            )
        except CommandFailed as error:
            if any(_BEGINS in each for each in lines):
                return None
            return _reason(str(error))
    return None


def _reason(text: str) -> str:
    """Return kind's error, without what it was doing."""
    error = re.search(r"ERROR: (?:failed to create cluster: )?(.*)", text, re.DOTALL)
    return " ".join((text if error is None else error[1]).split())
