"""The namespace that training runs in, and who may do what there."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import pulumi

from clusters.cluster import JOB_ACCOUNT, JOBS, Cluster
from core.manifests import MANAGED_BY, Manifest, marked, restricted_namespace
from infra.declare import declare, declare_all
from infra.pulling import with_pulling
from infra.rbac import grant, rule

NAME = JOBS
SUBMITTER = "slipway-submitter"
"""For people and pipelines that submit and follow jobs without being cluster administrators."""


class JobNamespace(pulumi.ComponentResource):
    """The namespace of the jobs, with its accounts, their rights, and its network policy.

    One that is somebody else's is used as it is: what is made in it concerns Slipway's own pods.

    Args:
        cluster: Where it is, and whose.
    """

    def __init__(self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:infra:JobNamespace", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        if cluster.own_namespace:
            # Others' operators put a container in front of each worker that says nothing of what
            # it needs, which only the next lower level admits; Slipway's own pods are the same.
            level: Level = "restricted" if cluster.operator is None else "baseline"
            namespace = declare(marked(_namespace(cluster.namespace, level)), inside)
            inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        known = {} if cluster.identity is None else cluster.identity.annotations
        wanted = contents(cluster.namespace, own=cluster.own_namespace, known=known)
        # So another stack sees whose it is, even one that may not see the namespace itself.
        made = [marked(each) for each in wanted]
        declare_all(with_pulling(made, cluster.namespace, cluster.pull_secret), inside)
        self.register_outputs({})


def contents(
    namespace: str = NAME,
    *,
    own: bool = True,
    known: Mapping[str, pulumi.Input[str]] = MappingProxyType({}),
) -> list[Manifest]:
    """Return what is made in the namespace.

    Args:
        namespace: Its name.
        own: Whether nobody else has anything in it.
        known: Annotations by which a cloud knows the jobs' account.
    """
    account = _account(JOB_ACCOUNT, namespace)
    if known:
        account["metadata"]["annotations"] = dict(known)
    if not own:
        # Who may submit there is for those to say whose it is.
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


Level = Literal["restricted", "baseline"]


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
