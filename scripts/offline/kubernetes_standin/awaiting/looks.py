"""Which look decides that an object of a kind is ready."""

from collections.abc import Mapping
from typing import Any

from scripts.offline.kubernetes_standin.awaiting import basics, pods, workloads
from scripts.offline.kubernetes_standin.awaiting.custom import wait_for
from scripts.offline.kubernetes_standin.awaiting.verdict import Look
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import annotation, is_set

_LOOKS: Mapping[tuple[str, str], Look] = {
    ("", "Namespace"): basics.namespace,
    ("", "PersistentVolume"): basics.volume,
    ("", "PersistentVolumeClaim"): basics.claim,
    ("", "Pod"): pods.look,
    ("", "ResourceQuota"): basics.quota,
    ("", "Secret"): basics.token_secret,
    ("", "Service"): basics.service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): basics.definition,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("batch", "Job"): workloads.job,
}


def look_for(inputs: Mapping[str, Any]) -> Look | None:
    """Return how to tell that the object made from `inputs` is ready, None when it is at once.

    Raises:
        ValueError: `pulumi.com/waitFor` can't be read.
    """
    if is_set(inputs, "skipAwait"):
        return None
    custom = annotation(inputs, "waitFor")
    if custom is not None:
        return wait_for(custom)
    kind = Kind.of_object(inputs)
    return _LOOKS.get((kind.group, kind.kind))
