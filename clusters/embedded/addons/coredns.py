"""coredns: names of services and pods."""

from typing import Any

from clusters.embedded import images
from clusters.embedded.addons.rbac import bind, role, rule
from clusters.embedded.component import Host
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE

NAMESPACE = "kube-system"
NAME = "coredns"
LABELS = {"k8s-app": "kube-dns"}
# Above 1024: a port that needs no capability.
PORT = 1053
REQUESTS = {"cpu": "10m", "memory": "32Mi"}

# There is no way to the outside, so other names are answered at once, with "no such name".
COREFILE = f"""\
{DNS_DOMAIN}:{PORT} in-addr.arpa:{PORT} {{
    errors
    health :8080
    ready :8181
    kubernetes {DNS_DOMAIN} in-addr.arpa {{
        ttl 5
    }}
    loadbalance
}}
.:{PORT} {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def manifests(host: Host) -> list[dict[str, Any]]:
    """Service account and rights, configuration, Deployment, Service."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        role(
            "system:coredns",
            rule("", "endpoints services pods namespaces", "list watch"),
            rule("discovery.k8s.io", "endpointslices", "list watch"),
        ),
        bind(
            "system:coredns",
            "system:coredns",
            {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE},
        ),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(),
            "data": {"Corefile": COREFILE},
        },
        _deployment(images.reference(host.tool, "coredns")),
        _service(),
    ]


def _metadata(name: str = NAME) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": LABELS}


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        # Under this name Kubernetes' own tools look for it.
        "metadata": _metadata("kube-dns"),
        "spec": {
            "clusterIP": str(DNS_SERVICE),
            "selector": LABELS,
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": PORT},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": PORT},
            ],
        },
    }


def _deployment(image: str) -> dict[str, Any]:
    pod = {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(image)],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": 1,
            # One after the other: two at once would not fit on a node that is full.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        },
    }


def _container(image: str) -> dict[str, Any]:
    return {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": PORT, "protocol": "TCP"},
        ],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "resources": {
            "requests": REQUESTS,
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
