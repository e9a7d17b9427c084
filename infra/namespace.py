"""The namespace that training runs in: its accounts, their rights, and its pull secret."""

import base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import pulumi

from clusters.cluster import JOB_ACCOUNT, JOBS, Cluster, PullSecret
from core.manifests import MANAGED_BY, Manifest, marked, restricted_namespace
from infra.declare import declare, declare_all

NAME = JOBS
Level = Literal["restricted", "baseline"]
SUBMITTER = "slipway-submitter"
"""For people and pipelines that submit and follow jobs without being cluster administrators."""


class JobNamespace(pulumi.ComponentResource):
    """The namespace of the jobs, with its accounts, their rights, and its network policy.

    An existing one is used as it is: what is created in it concerns Slipway's own pods only.

    Args:
        cluster: Where it is, and whose.
    """

    def __init__(self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:infra:JobNamespace", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        if cluster.own_namespace:
            # An existing operator adds an init container without a security context to each
            # worker, which only the next lower level admits; Slipway's own pods stay the same.
            level: Level = "restricted" if cluster.operator is None else "baseline"
            namespace = declare(marked(_namespace(cluster.namespace, level)), inside)
            inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        known = {} if cluster.identity is None else cluster.identity.annotations
        manifests = contents(cluster.namespace, own=cluster.own_namespace, known=known)
        # So another stack sees whose it is, even one that may not see the namespace itself.
        made = [marked(each) for each in manifests]
        declare_all(with_pull_secret(made, cluster.namespace, cluster.pull_secret), inside)
        self.register_outputs({})


def contents(
    namespace: str = NAME,
    *,
    own: bool = True,
    known: Mapping[str, pulumi.Input[str]] = MappingProxyType({}),
) -> list[Manifest]:
    """Return the manifests of what is created in the namespace.

    Args:
        namespace: Its name.
        own: Whether only this stack uses it.
        known: Annotations by which a cloud knows the jobs' account.
    """
    account = _account(JOB_ACCOUNT, namespace)
    if known:
        account["metadata"]["annotations"] = dict(known)
    if not own:
        # The owner of the namespace decides who may submit jobs in it.
        return [account, _network_policy(namespace, MANAGED_BY)]
    return [
        account,
        _account(SUBMITTER, namespace),
        *grant(
            SUBMITTER,
            namespace,
            rule(
                "kubeflow.org",
                ["pytorchjobs"],
                ["create", "delete", "get", "list", "patch", "watch"],
            ),
            rule("", ["events", "pods", "pods/log"], ["get", "list", "watch"]),
            account=(namespace, SUBMITTER),
        ),
        _network_policy(namespace, {}),
    ]


def _namespace(name: str, level: Level) -> Manifest:
    namespace = restricted_namespace(name)
    namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = level
    return namespace


def _account(name: str, namespace: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
        "automountServiceAccountToken": False,
    }


_RBAC = "rbac.authorization.k8s.io"
_METADATA = ("169.254.169.254/32", "168.63.129.16/32")
"""https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service and
https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16"""


def _network_policy(namespace: str, labels: dict[str, str]) -> Manifest:
    """Return that of the pods with these labels only the namespace's like pods may reach any.

    The ranks of a job talk to each other with no authentication. And none of them reaches a
    cloud's metadata service, which would hand out the node's identity. It holds where the
    cluster's network enforces policies; the embedded cluster's does not.
    """
    pods = {"matchLabels": dict(labels)} if labels else {}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "slipway-ranks-only", "namespace": namespace},
        "spec": {
            "podSelector": pods,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": pods}]}],
            "egress": [
                # Some networks do not count pods among addresses.
                {"to": [{"namespaceSelector": {}}]},
                {
                    "to": [
                        {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_METADATA)}},
                        {"ipBlock": {"cidr": "::/0"}},
                    ]
                },
            ],
        },
    }


def rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> Manifest:
    """Return a rule of a role.

    Args:
        group: The resources' API group, empty for the core one.
        resources: In the plural, like `pods` or `pods/log`.
        verbs: What may be done.
        names: Only to objects of these names; empty for all. It cannot bound `create`,
            nor a `list` or `watch` of all of them.
    """
    granted: Manifest = {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}
    return granted | ({"resourceNames": [*names]} if names else {})


def grant(
    name: str, namespace: str | None, *rules: Manifest, account: tuple[str, str]
) -> list[Manifest]:
    """Return a role with `rules` and the binding that gives it to a service account.

    Args:
        name: Of both.
        namespace: Where the rules hold; None for a ClusterRole.
        *rules: What may be done; see `rule`.
        account: The account's namespace and name.
    """
    kind = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [*rules],
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}],
    }
    return [role, binding]


def pull_secret(namespace: str, pull: PullSecret) -> Manifest:
    """Return the Secret with which nodes pull from a private registry."""
    encoded = base64.b64encode(pull.content.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": pull.name, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": pulumi.Output.secret(encoded)},
    }


def with_pull_secret(
    manifests: list[Manifest], namespace: str, pull: PullSecret | None
) -> list[Manifest]:
    """Return what is in a namespace, with what the pods of its accounts need to pull.

    A pod pulls with its account's Secrets unless it names some of its own
    (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#add-imagepullsecrets-to-a-service-account).
    """
    if pull is None:
        return manifests
    return [pull_secret(namespace, pull), *(_pulling(each, pull) for each in manifests)]


def _pulling(manifest: Manifest, pull: PullSecret) -> Manifest:
    if manifest["kind"] != "ServiceAccount":
        return manifest
    return {**manifest, "imagePullSecrets": [{"name": pull.name}]}
