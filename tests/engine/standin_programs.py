"""The programs that the tests of the stand-in run: ordinary ones, as a user writes them.

Each knows nothing of the plugin that serves it. STANDIN_PROGRAM names one and its arguments.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions

_POD = {
    "containers": [{"name": "main", "image": "slipway.local/nothing:1", "resources": {}}],
    "terminationGracePeriodSeconds": 0,
}

_MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: from-yaml, namespace: {namespace}}}
data: {{day: "2024-01-02"}}
"""


def _workload(labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "selector": {"match_labels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {**_POD, **spec}},
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
    replicas: int = 0,
    replace_on: str | None = None,
    ignore: str | None = None,
) -> None:
    """A namespace with a named and an unnamed ConfigMap and a Deployment."""
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
    unnamed = k8s.core.v1.ConfigMap(
        "unnamed",
        metadata={"namespace": home.metadata.name},
        data={"content": content},
        opts=options,
    )
    k8s.apps.v1.Deployment(
        "web",
        metadata={"name": "web", "namespace": home.metadata.name, "labels": {"team": team}},
        # Paused, so that no pod is ever made.
        spec={"replicas": replicas, "paused": True, **_workload({"app": "web"})},
        opts=ResourceOptions.merge(
            options, ResourceOptions(ignore_changes=[ignore] if ignore else None)
        ),
    )
    pulumi.export("unnamed", unnamed.metadata.name)


def stuck(namespace: str, *, replicas: int, **pod: Any) -> None:
    """An unnamed Deployment whose pods can't start."""
    k8s.apps.v1.Deployment(
        "stuck",
        metadata={"namespace": namespace},
        spec={"replicas": replicas, **_workload({"app": "stuck"}, **pod)},
        opts=ResourceOptions(provider=provider()),
    )


def pinned(namespace: str, *, seconds: int) -> None:
    """A ConfigMap that its finalizer holds back."""
    k8s.core.v1.ConfigMap(
        "pinned",
        metadata={
            "name": "pinned",
            "namespace": namespace,
            "finalizers": ["example.com/hold"],
            "annotations": {"pulumi.com/timeoutSeconds": str(seconds)},
        },
        opts=ResourceOptions(provider=provider()),
    )


def confidential(namespace: str, *, canary: str) -> None:
    """Secrets in every place where one may stand."""
    options = ResourceOptions(provider=provider())
    plain = k8s.core.v1.Secret(
        "plain",
        metadata={"name": "plain", "namespace": namespace},
        string_data={"password": canary},
        opts=options,
    )
    k8s.core.v1.ConfigMap(
        "config",
        metadata={"name": "config", "namespace": namespace},
        data={"password": pulumi.Output.secret(canary), "public": "seen"},
        opts=options,
    )
    pulumi.export("data", plain.data)


def refusing(namespace: str, *, canary: str) -> None:
    """A secret in a field whose value the API server quotes when it refuses it."""
    k8s.core.v1.ConfigMap(
        "refused",
        metadata={
            "name": "refused",
            "namespace": namespace,
            "labels": {"password": pulumi.Output.secret(canary)},
        },
        opts=ResourceOptions(provider=provider()),
    )


def unserved() -> None:
    """Something that only the real plugin does."""
    options = ResourceOptions(provider=provider())
    k8s.core.v1.NamespacePatch("patch", metadata={"name": "default"}, opts=options)


def every_kind(namespace: str, *, group: str, size: int) -> None:
    """One object of each kind that Slipway makes, with values that the server respells."""
    cluster = provider()
    options = ResourceOptions(provider=cluster)
    home = k8s.core.v1.Namespace("home", metadata={"name": namespace}, opts=options)
    inside = {"namespace": home.metadata.name}
    rules = [{"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    account = k8s.core.v1.ServiceAccount(
        "account", metadata=inside, automount_service_account_token=False, opts=options
    )
    subjects = [{"kind": "ServiceAccount", "name": account.metadata.name, "namespace": namespace}]
    for scope, role, binding, place in (
        ("Role", k8s.rbac.v1.Role, k8s.rbac.v1.RoleBinding, inside),
        ("ClusterRole", k8s.rbac.v1.ClusterRole, k8s.rbac.v1.ClusterRoleBinding, {}),
    ):
        made = role(scope, metadata=place, rules=rules, opts=options)
        binding(
            f"{scope}Binding",
            metadata=place,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": scope,
                "name": made.metadata.name,
            },
            subjects=subjects,
            opts=options,
        )
    resources = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 1.5}}
    container = {"name": "main", "image": "slipway.local/nothing:1", "resources": resources}
    k8s.apps.v1.Deployment(
        "deployment",
        metadata=inside,
        spec={"replicas": 0, **_workload({"app": "x"}, containers=[container])},
        opts=options,
    )
    k8s.core.v1.Service(
        "service",
        metadata=inside,
        spec={"ports": [{"port": 80, "name": "http"}], "cluster_ip": "None"},
        opts=options,
    )
    k8s.core.v1.Secret("secret", metadata=inside, string_data={"a": "b"}, opts=options)
    k8s.core.v1.ConfigMap("config", metadata=inside, data={"a": ""}, opts=options)
    k8s.core.v1.ResourceQuota(
        "quota",
        metadata=inside,
        spec={"hard": {"requests.cpu": "2000m", "pods": "10"}},
        opts=options,
    )
    k8s.networking.v1.NetworkPolicy(
        "policy",
        metadata=inside,
        spec={"pod_selector": {}, "policy_types": ["Ingress"], "ingress": [{}]},
        opts=options,
    )
    k8s.admissionregistration.v1.ValidatingWebhookConfiguration(
        "webhook",
        webhooks=[
            {
                "name": "nothing.example.com",
                "client_config": {"service": {"name": "none", "namespace": namespace}},
                "side_effects": "None",
                "admission_review_versions": ["v1"],
                "failure_policy": "Ignore",
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
        opts=options,
    )
    storage = k8s.storage.v1.StorageClass(
        "storage", provisioner="kubernetes.io/no-provisioner", opts=options
    )
    k8s.core.v1.PersistentVolume(
        "volume",
        metadata={"name": namespace},
        spec={
            "capacity": {"storage": "1024Mi"},
            "access_modes": ["ReadWriteOnce"],
            "storage_class_name": storage.metadata.name,
            "host_path": {"path": "/nowhere"},
        },
        opts=options,
    )
    k8s.core.v1.PersistentVolumeClaim(
        "claim",
        metadata=inside,
        spec={
            "access_modes": ["ReadWriteOnce"],
            "storage_class_name": storage.metadata.name,
            "resources": {"requests": {"storage": "0.5Gi"}},
            "volume_name": namespace,
        },
        opts=options,
    )
    k8s.scheduling.v1.PriorityClass("priority", value=7, opts=options)
    k8s.batch.v1.Job(
        "job",
        metadata=inside,
        spec={"suspend": True, "template": {"spec": {**_POD, "restart_policy": "Never"}}},
        opts=options,
    )
    _training(options, inside)
    _custom(options, group, size)
    k8s.yaml.ConfigGroup(
        "yaml",
        yaml=[_MANIFEST.format(namespace=namespace)],
        opts=ResourceOptions(providers={"kubernetes": cluster}, depends_on=[home]),
    )
    found = k8s.core.v1.Service.get("found", "default/kubernetes", opts=options)
    pulumi.export("found", found.spec.ports[0].name)


def _training(options: ResourceOptions, inside: Mapping[str, Any]) -> None:
    """A PyTorchJob that stays suspended."""
    container = {
        "name": "pytorch",
        "image": "slipway.local/nothing:1",
        "resources": {"limits": {"memory": "1024Mi"}},
    }
    k8s.apiextensions.CustomResource(
        "training",
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata={**inside, "name": "training"},
        spec={
            "runPolicy": {"suspend": True},
            "pytorchReplicaSpecs": {
                "Master": {
                    "replicas": 1,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": {"containers": [container]}},
                }
            },
        },
        opts=options,
    )


def _custom(options: ResourceOptions, group: str, size: int) -> None:
    """A CustomResourceDefinition and a resource of its kind."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x_kubernetes_preserve_unknown_fields": True}},
    }
    definition = k8s.apiextensions.v1.CustomResourceDefinition(
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
    k8s.apiextensions.CustomResource(
        "box",
        api_version=f"{group}/v1",
        kind="Box",
        metadata={"name": f"box.{group}"},
        spec={"size": size},
        opts=ResourceOptions.merge(options, ResourceOptions(depends_on=[definition])),
    )


_PROGRAMS = {
    function.__name__: function
    for function in (
        nothing,
        life,
        stuck,
        pinned,
        confidential,
        refusing,
        unserved,
        every_kind,
    )
}


def main() -> None:
    """Run the program that the environment names."""
    name, arguments = json.loads(os.environ["STANDIN_PROGRAM"])
    _PROGRAMS[name](**arguments)
