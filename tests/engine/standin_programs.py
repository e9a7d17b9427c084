"""The programs that the tests of the stand-in run: ordinary ones, as a user writes them.

Each knows nothing of the plugin that serves it. STANDIN_PROGRAM names one and its arguments.
"""

import json
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pulumi import CustomTimeouts, ResourceOptions

_POD = {
    "containers": [{"name": "main", "image": "slipway.local/nothing:1", "resources": {}}],
    "terminationGracePeriodSeconds": 0,
}
_SKIPPED = {"pulumi.com/skipAwait": "true"}


def _workload(name: str) -> dict[str, Any]:
    return {
        "selector": {"match_labels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": _POD},
    }


def provider(**settings: Any) -> k8s.Provider:
    """Return the provider for the cluster of the test."""
    settings.setdefault("kubeconfig", pulumi.Output.secret(os.environ["STANDIN_KUBECONFIG"]))
    return k8s.Provider("cluster", cluster_identifier="test", **settings)


def nothing() -> None:
    """Declare nothing."""


def life(
    namespace: str,
    *,
    team: str = "a",
    content: str = "1",
    replace_on: str | None = None,
) -> None:
    """A namespace with a ConfigMap and a Deployment."""
    options = ResourceOptions(provider=provider())
    home = k8s.core.v1.Namespace("home", metadata={"name": namespace}, opts=options)
    k8s.core.v1.ConfigMap(
        "named",
        metadata={
            "name": "named",
            "namespace": home.metadata.name,
            "labels": {"team": team, "example.com/team": team},
            "annotations": {},
        },
        data={"content": content},
        opts=ResourceOptions.merge(
            options, ResourceOptions(replace_on_changes=[replace_on] if replace_on else None)
        ),
    )
    k8s.apps.v1.Deployment(
        "web",
        metadata={
            "name": "web",
            "namespace": home.metadata.name,
            "labels": {"team": team},
            "annotations": _SKIPPED,
        },
        # Paused, so that no pod is ever made.
        spec={"replicas": 0, "paused": True, **_workload("web")},
        opts=options,
    )


def pinned(namespace: str, *, seconds: int = 60) -> None:
    """A ConfigMap that its finalizer holds back."""
    k8s.core.v1.ConfigMap(
        "pinned",
        metadata={
            "name": "pinned",
            "namespace": namespace,
            "finalizers": ["example.com/hold"],
        },
        opts=ResourceOptions(
            provider=provider(), custom_timeouts=CustomTimeouts(delete=f"{seconds}s")
        ),
    )


def confidential(namespace: str, *, canary: str) -> None:
    """Secrets in every place where one may stand."""
    options = ResourceOptions(provider=provider())
    plain = k8s.core.v1.Secret(
        "plain",
        metadata={"name": "plain", "namespace": namespace},
        data={"password": b64encode(canary.encode()).decode()},
        opts=options,
    )
    k8s.core.v1.ConfigMap(
        "config",
        metadata={"name": "config", "namespace": namespace},
        data={"password": pulumi.Output.secret(canary), "public": "seen"},
        opts=options,
    )
    pulumi.export("data", plain.data)


def unserved() -> None:
    """Something that only the real plugin does."""
    options = ResourceOptions(provider=provider())
    k8s.core.v1.NamespacePatch("patch", metadata={"name": "default"}, opts=options)


def every_kind(namespace: str, *, group: str, size: int) -> None:
    """One object of each kind that Slipway makes, with values that the server respells."""
    options = ResourceOptions(provider=provider())
    home = k8s.core.v1.Namespace("home", metadata={"name": namespace}, opts=options)
    inside = {"namespace": home.metadata.name}
    rules = [{"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    k8s.core.v1.ServiceAccount(
        "account",
        metadata={**inside, "name": "account"},
        automount_service_account_token=False,
        opts=options,
    )
    subjects = [{"kind": "ServiceAccount", "name": "account", "namespace": namespace}]
    for scope, role, binding, metadata in (
        ("Role", k8s.rbac.v1.Role, k8s.rbac.v1.RoleBinding, {**inside, "name": "role"}),
        (
            "ClusterRole",
            k8s.rbac.v1.ClusterRole,
            k8s.rbac.v1.ClusterRoleBinding,
            {"name": namespace},
        ),
    ):
        made = role(scope, metadata=metadata, rules=rules, opts=options)
        binding(
            f"{scope}Binding",
            metadata=metadata,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": scope,
                "name": made.metadata.name,
            },
            subjects=subjects,
            opts=options,
        )
    k8s.core.v1.Secret(
        "secret", metadata={**inside, "name": "secret"}, data={"a": "Yg=="}, opts=options
    )
    k8s.core.v1.Secret("empty", metadata={**inside, "name": "empty"}, opts=options)
    k8s.core.v1.ConfigMap(
        "config", metadata={**inside, "name": "config"}, data={"a": ""}, opts=options
    )
    k8s.networking.v1.NetworkPolicy(
        "policy",
        metadata={**inside, "name": "policy"},
        spec={"pod_selector": {}, "policy_types": ["Ingress"], "ingress": [{}]},
        opts=options,
    )
    _workloads({**inside, "annotations": _SKIPPED}, size, options)
    _storage(namespace, {**inside, "annotations": _SKIPPED}, options)
    _webhook(namespace, size, options)
    _definition(group, options)


def _workloads(metadata: Mapping[str, Any], size: int, options: ResourceOptions) -> None:
    resources = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 1.5}}
    container = {"name": "main", "image": "slipway.local/nothing:1", "resources": resources}
    spec = _workload("x")
    spec["template"]["spec"] = {**_POD, "containers": [container]}
    k8s.apps.v1.Deployment(
        "deployment",
        metadata={**metadata, "name": "deployment"},
        spec={"replicas": 0, "revision_history_limit": size, **spec},
        opts=options,
    )
    nowhere = {**_POD, "node_selector": {"no": "such-node"}}
    spec = _workload("y")
    spec["template"]["spec"] = nowhere
    k8s.apps.v1.DaemonSet(
        "daemon", metadata={**metadata, "name": "daemon"}, spec=spec, opts=options
    )
    k8s.core.v1.Service(
        "service",
        metadata={**metadata, "name": "service"},
        spec={"ports": [{"port": 80, "name": "http"}], "selector": {"app": "x"}},
        opts=options,
    )


def _storage(namespace: str, metadata: Mapping[str, Any], options: ResourceOptions) -> None:
    """A volume and the claim that is bound to it."""
    volume = k8s.core.v1.PersistentVolume(
        "volume",
        metadata={"name": namespace},
        spec={
            "capacity": {"storage": "1024Mi"},
            "access_modes": ["ReadWriteOnce"],
            "storage_class_name": "",
            "claim_ref": {
                "api_version": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": "claim",
            },
            "host_path": {"path": "/nowhere"},
        },
        opts=options,
    )
    k8s.core.v1.PersistentVolumeClaim(
        "claim",
        metadata={**metadata, "name": "claim"},
        spec={
            "access_modes": ["ReadWriteOnce"],
            "storage_class_name": "",
            "resources": {"requests": {"storage": "0.5Gi"}},
            "volume_name": volume.metadata.name,
        },
        opts=options,
    )


def _webhook(namespace: str, size: int, options: ResourceOptions) -> None:
    """A webhook for a resource that no one makes, whose CA someone else writes."""
    k8s.admissionregistration.v1.ValidatingWebhookConfiguration(
        "webhook",
        metadata={"name": namespace},
        webhooks=[
            {
                "name": "nothing.example.com",
                "client_config": {"service": {"name": "none", "namespace": namespace}},
                "side_effects": "None",
                "admission_review_versions": ["v1"],
                "failure_policy": "Ignore",
                "timeout_seconds": size,
                "rules": [
                    {
                        "api_groups": ["none.example.com"],
                        "api_versions": ["*"],
                        "operations": ["CREATE"],
                        "resources": ["nothings"],
                    }
                ],
            }
        ],
        opts=ResourceOptions.merge(
            options, ResourceOptions(ignore_changes=["webhooks[*].clientConfig.caBundle"])
        ),
    )


def _definition(group: str, options: ResourceOptions) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x_kubernetes_preserve_unknown_fields": True}},
    }
    k8s.apiextensions.v1.CustomResourceDefinition(
        "definition",
        metadata={"name": f"boxes.{group}"},
        spec={
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"open_apiv3_schema": schema},
                }
            ],
        },
        opts=options,
    )


_PROGRAMS = {
    function.__name__: function
    for function in (
        nothing,
        life,
        pinned,
        confidential,
        unserved,
        every_kind,
    )
}


def main() -> None:
    """Run the program that the environment names."""
    name, arguments = json.loads(os.environ["STANDIN_PROGRAM"])
    _PROGRAMS[name](**arguments)
