"""How nodes get at a private registry: a Secret, and the accounts whose pods pull with it.

A pod pulls with its account's Secrets unless it names some of its own
(https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#add-imagepullsecrets-to-a-service-account).
"""

import base64

import pulumi

from clusters.cluster import PullSecret
from core.manifests import Manifest


def secret(namespace: str, pull: PullSecret) -> Manifest:
    """Return the Secret in a namespace."""
    encoded = base64.b64encode(pull.content.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": pull.name, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": pulumi.Output.secret(encoded)},
    }


def with_pulling(
    manifests: list[Manifest], namespace: str, pull: PullSecret | None
) -> list[Manifest]:
    """Return what is in a namespace, with what the pods of its accounts need to pull."""
    if pull is None:
        return manifests
    return [secret(namespace, pull), *(_pulling(each, pull) for each in manifests)]


def _pulling(manifest: Manifest, pull: PullSecret) -> Manifest:
    if manifest["kind"] != "ServiceAccount":
        return manifest
    return {**manifest, "imagePullSecrets": [{"name": pull.name}]}
