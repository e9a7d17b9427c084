"""What every cluster has in it from the start, as plain manifests: rights, coredns, storage."""

from typing import Any

from clusters.embedded.host import Host, image_reference
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE

Manifest = dict[str, Any]

COREDNS_REQUESTS = {"cpu": "10m", "memory": "32Mi"}
PROVISIONER = "slipway.local/directory"
"""Serves the default StorageClass: `clusters.embedded.provisioner`."""
STORAGE_CLASS = "slipway-directory"
_RBAC = "rbac.authorization.k8s.io"
_NAMESPACE, _NAME, _LABELS = "kube-system", "coredns", {"k8s-app": "kube-dns"}
_PORT = 1053
"""Above 1024: a port that needs no capability."""
_COREFILE = f"""\
{DNS_DOMAIN}:{_PORT} in-addr.arpa:{_PORT} {{
    errors
    health :8080
    ready :8181
    kubernetes {DNS_DOMAIN} in-addr.arpa {{
        ttl 5
    }}
    loadbalance
}}
.:{_PORT} {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""
"""Pods can't reach the outside, so other names are answered at once, with "no such name"."""


def manifests(host: Host) -> list[Manifest]:
    """Return every object, in the order in which to make them."""
    return [*_access(), *_coredns(image_reference(host.tool, "coredns")), storage_class()]


def _access() -> list[Manifest]:
    """Rights of the users in `pki.requests`, beyond what Kubernetes binds itself."""
    return [
        _bind("slipway:admins", "cluster-admin", {"kind": "Group", "name": "slipway:admins"}),
        # How the API server reads logs and runs `kubectl exec`.
        _bind(
            "slipway:apiserver",
            "system:kubelet-api-admin",
            {"kind": "User", "name": "kube-apiserver-kubelet-client"},
        ),
        _role(
            "slipway:volume-provisioner",
            _rule("", "persistentvolumes", "get list watch create delete"),
            _rule("", "persistentvolumeclaims", "get list watch"),
            _rule("", "events", "create"),
            _rule("storage.k8s.io", "storageclasses", "get list"),
        ),
        _bind(
            "slipway:volume-provisioner",
            "slipway:volume-provisioner",
            {"kind": "User", "name": "slipway:volume-provisioner"},
        ),
    ]


def _coredns(image: str) -> list[Manifest]:
    """Names of services and pods: service account, rights, configuration, Deployment, Service."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        _role(
            "system:coredns",
            _rule("", "endpoints services pods namespaces", "list watch"),
            _rule("discovery.k8s.io", "endpointslices", "list watch"),
        ),
        _bind(
            "system:coredns",
            "system:coredns",
            {"kind": "ServiceAccount", "name": _NAME, "namespace": _NAMESPACE},
        ),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(),
            "data": {"Corefile": _COREFILE},
        },
        _deployment(image),
        _service(),
    ]


def _metadata(name: str = _NAME) -> Manifest:
    return {"name": name, "namespace": _NAMESPACE, "labels": _LABELS}


def _service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        # Under this name Kubernetes' own tools look for it.
        "metadata": _metadata("kube-dns"),
        "spec": {
            "clusterIP": str(DNS_SERVICE),
            # A kubelet that starts again calls its pods unready until it has probed them, and
            # names would not be resolved meanwhile. There is no other pod to ask.
            "publishNotReadyAddresses": True,
            "selector": _LABELS,
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": _PORT},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": _PORT},
            ],
        },
    }


def _deployment(image: str) -> Manifest:
    pod = {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(image)],
        "volumes": [{"name": "config", "configMap": {"name": _NAME}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": 1,
            # One after the other: two at once would not fit on a node that is full.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        },
    }


def _container(image: str) -> Manifest:
    return {
        "name": _NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": _PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": _PORT, "protocol": "TCP"},
        ],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "resources": {
            "requests": COREDNS_REQUESTS,
            "limits": {"memory": "170Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080},
            "initialDelaySeconds": 30,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
    }


def storage_class() -> Manifest:
    """Return the class that a claim gets which names none."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        # With one node, nothing has to be waited for.
        "volumeBindingMode": "Immediate",
    }


def _rule(group: str, resources: str, verbs: str) -> dict[str, list[str]]:
    """One rule; resources and verbs are separated by spaces."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


def _role(name: str, *rules: dict[str, list[str]]) -> Manifest:
    """A ClusterRole."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _bind(name: str, role_name: str, subject: dict[str, str]) -> Manifest:
    """A ClusterRoleBinding of one user, group or service account."""
    group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": _RBAC}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role_name},
        "subjects": [{**subject, **group}],
    }
