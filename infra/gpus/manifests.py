"""NVIDIA's device plugin and the pod that tries a GPU, as plain dicts."""

from collections.abc import Mapping
from typing import Any

from clusters.pools import GpuPool, Taint
from core.manifests import MANAGED_BY, Manifest
from jobs.spec.replicas import GPU

NAMESPACE = "slipway-gpu"
"""Of the device plugin alone: nothing else may do what it has to."""
PLUGIN = "nvidia-device-plugin"
"""The DaemonSet's name, and the plugin's image in `Cluster.images`."""
PROBE = "slipway-cuda-probe"
_SELECTOR = {"app.kubernetes.io/name": PLUGIN}
_SOCKETS = "/var/lib/kubelet/device-plugins"
_USER = 65532


def device_plugin(pool: GpuPool, image: str, pull_secret: str | None = None) -> list[Manifest]:
    """Return what makes the nodes of `pool` offer their GPUs: a namespace and a DaemonSet.

    As the plugin's own release has it, but on the pool's nodes alone:
    https://github.com/NVIDIA/k8s-device-plugin/blob/v0.17.0/deployments/static/nvidia-device-plugin.yml

    Args:
        pool: The nodes.
        image: The plugin's.
        pull_secret: Of its namespace, with which nodes pull it; None where they need none.
    """
    return [_namespace(), _daemon_set(pool, image, pull_secret)]


def _namespace() -> Manifest:
    """Return a namespace whose pods may mount the kubelet's directory, which is a host path.

    No level of Pod Security below `privileged` admits one:
    https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
    """
    labels = {"pod-security.kubernetes.io/enforce": "privileged", **MANAGED_BY}
    metadata = {"name": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _daemon_set(pool: GpuPool, image: str, pull_secret: str | None) -> Manifest:
    container: dict[str, Any] = {
        "name": PLUGIN,
        "image": image,
        # Where labels select nodes with GPUs, the plugin restarts until the driver is installed,
        # for which it looks only once. Without labels it would restart endlessly on nodes that have
        # no GPU.
        "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true" if pool.labels else "false"}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "device-plugins", "mountPath": _SOCKETS}],
    }
    pod = {
        # It speaks to the kubelet beside it and to no API server.
        "automountServiceAccountToken": False,
        **placement(pool),
        **({} if pull_secret is None else {"imagePullSecrets": [{"name": pull_secret}]}),
        # It has to run before any pod that needs it, and is the last to be evicted.
        "priorityClassName": "system-node-critical",
        "containers": [container],
        "volumes": [
            {"name": "device-plugins", "hostPath": {"path": _SOCKETS, "type": "Directory"}}
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": PLUGIN,
            "namespace": NAMESPACE,
            "labels": {**_SELECTOR, **MANAGED_BY},
            # A pool may have no nodes yet. Where it has some, `infra.gpus.handler` waits for the
            # GPUs themselves, which is the stronger condition.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "selector": {"matchLabels": _SELECTOR},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": {**_SELECTOR, **MANAGED_BY}}, "spec": pod},
        },
    }


def probe_pod(pool: GpuPool, image: str, account: str, seconds: int) -> Manifest:
    """Return a pod that tries one GPU of the pool (`slipway_trainer.cuda_probe`).

    Args:
        pool: Where.
        image: Of the trainer, for GPUs.
        account: What it runs as: a job's, which has no rights.
        seconds: Its deadline, in case the process that waits for it is gone.
    """
    resources = {"cpu": "100m", "memory": "1Gi", GPU: "1"}
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "slipway_trainer.cuda_probe"],
        "env": [
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {"requests": resources, "limits": {**resources, "cpu": "2", "memory": "4Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": PROBE, "labels": {**MANAGED_BY}},
        "spec": {
            "serviceAccountName": account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 0,
            **placement(pool),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}}],
        },
    }


def placement(pool: GpuPool) -> dict[str, Any]:
    """Return the fields of a pod's spec that put it on the nodes of `pool`."""
    chosen = {
        "nodeSelector": dict(pool.labels),
        "tolerations": [
            {"key": each.key, "operator": "Equal", "value": each.value, "effect": each.effect}
            for each in pool.taints
        ],
    }
    return {key: value for key, value in chosen.items() if value}


def facts(pool: GpuPool) -> dict[str, Any]:
    """Return a pool as the inputs of `slipway:infra:GpuReady`; empty values are left out."""
    found = {
        "perNode": pool.per_node,
        "minNodes": pool.min_nodes,
        "maxNodes": pool.max_nodes,
        "labels": dict(pool.labels),
        "taints": [
            {"key": each.key, "value": each.value, "effect": each.effect} for each in pool.taints
        ],
        "devicePlugin": pool.device_plugin,
        "driver": pool.driver,
    }
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def pool_of(facts: Mapping[str, Any]) -> GpuPool:
    """Return the pool that `facts` came from, as far as they describe it."""
    return GpuPool(
        per_node=facts["perNode"],
        min_nodes=facts["minNodes"],
        max_nodes=facts.get("maxNodes"),
        labels=facts.get("labels", {}),
        taints=tuple(Taint(**each) for each in facts.get("taints", [])),
        device_plugin=facts["devicePlugin"],
        driver=facts["driver"],
    )
