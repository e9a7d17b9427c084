"""Kubeflow's training operator: releases, installation, and the wait until it is ready.

This module has its name, resource requests and accepted releases, and is quick to import.
"""

import re
from pathlib import Path

from core.manifests import read
from core.toolchain import numbers

NAME = "training-operator"
NAMESPACE = "kubeflow"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pytorchjobs.kubeflow.org"
REQUESTS = {"cpu": "50m", "memory": "64Mi"}
"""The resource requests of the single operator pod that Slipway installs."""

_RELEASES = read(Path(__file__).with_name("releases.yaml"))

ACCEPTED = "1.7 to 1.9"


def version_of(image: str) -> str | None:
    """Return the version in the name of an operator's image, or None if there is none."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    match = re.fullmatch(r"v?(?P<version>\d+\.\d+(\.\d+)?)(-.*)?", _RELEASES.get(tag, tag))
    return None if match is None else match["version"]


def is_accepted(version: str) -> bool:
    """Return whether an operator version can run Slipway's PyTorchJobs."""
    return (1, 7) <= numbers(version)[:2] <= (1, 9)


def has_webhook(version: str) -> bool:
    """Return whether an operator version has a webhook for PyTorchJobs."""
    # https://github.com/kubeflow/training-operator/blob/v1.9.4/CHANGELOG.md
    return numbers(version) >= (1, 8)
