"""The training operator, as far as a cluster has to know of it: name, requests, releases. Pure."""

import re

NAME = "training-operator"
NAMESPACE = "kubeflow"
REQUESTS = {"cpu": "50m", "memory": "64Mi"}
"""The requests of the only pod of the operator that Slipway installs."""

_RELEASES = {
    "v1-5a5f92d": "1.6.0",
    "v1-855e096": "1.7.0",
    "v1-9e52eb7": "1.8.0",
    "v1-04f9f13": "1.8.1",
    "v1-5170a36": "1.9.0",
    "v1-3f15cb8": "1.9.2",
    "v1-d6eb98e": "1.9.3",
    "v1-93c5489": "1.9.4",
}
"""By the tag that the release's own manifests name: of a commit, and not of the release
(`manifests/overlays/standalone/kustomization.yaml` in
https://github.com/kubeflow/training-operator/tree/v1.9.4 and the tags before it)."""
_VERSION = re.compile(r"v?(?P<version>\d+\.\d+(\.\d+)?)(-.*)?")

ACCEPTED = "1.7 to 1.9"
_FIRST, _LAST = (1, 7), (1, 9)
_FIRST_WITH_WEBHOOK = (1, 8)
"""The first that has a webhook for PyTorchJobs
(https://github.com/kubeflow/training-operator/blob/v1.9.4/CHANGELOG.md)."""


def version_of(image: str) -> str | None:
    """Return the version of an operator's image, None where its name has none."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if tag in _RELEASES:
        return _RELEASES[tag]
    found = _VERSION.fullmatch(tag)
    return None if found is None else found["version"]


def is_accepted(version: str) -> bool:
    """Return whether it runs Slipway's PyTorchJobs as they are."""
    return _FIRST <= _minor(version) <= _LAST


def has_webhook(version: str) -> bool:
    """Return whether it has a webhook for PyTorchJobs."""
    return _minor(version) >= _FIRST_WITH_WEBHOOK


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
