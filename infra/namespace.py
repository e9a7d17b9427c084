"""The namespace that training runs in: its accounts, their rights, and its pull secret."""

import base64
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pulumi

from clusters.cluster import JOB_ACCOUNT, JOBS, Cluster, PullSecret
from core.manifests import MANAGED_BY, Manifest, marked, rendered, restricted_namespace
from infra.declare import declare, declare_all


class JobNamespace(pulumi.ComponentResource):
    """The namespace of the jobs, with its accounts, their rights, and its network policy.

    An existing one is used as it is: what is created in it concerns Slipway's own pods only.
    """

    def __init__(self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:infra:JobNamespace", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        if cluster.own_namespace:
            namespace = restricted_namespace(cluster.namespace)
            if cluster.operator is not None:
                # An existing operator adds an init container without a security context to each
                # worker, which only this level admits; Slipway's own pods stay the same.
                enforced = {"pod-security.kubernetes.io/enforce": "baseline"}
                namespace["metadata"]["labels"] |= enforced
            made = declare(marked(namespace), inside)
            inside = pulumi.ResourceOptions(parent=self, depends_on=[made])
        known = {} if cluster.identity is None else cluster.identity.annotations
        manifests = contents(cluster.namespace, own=cluster.own_namespace, known=known)
        # So another stack sees whose it is, even one that may not see the namespace itself.
        own = [marked(each) for each in manifests]
        declare_all(with_pull_secret(own, cluster.namespace, cluster.pull_secret), inside)
        self.register_outputs({})


def contents(
    namespace: str = JOBS,
    *,
    own: bool = True,
    known: Mapping[str, pulumi.Input[str]] = MappingProxyType({}),
) -> list[Manifest]:
    """Return the manifests of what is created in the namespace.

    `own` says whether only this stack uses it; `known` annotates the jobs' account for a cloud.
    """
    file = Path(__file__).with_suffix(".yaml")
    account, *submitter, policy = rendered(file, namespace=namespace, account=JOB_ACCOUNT)
    if known:
        account["metadata"]["annotations"] = dict(known)
    if own:
        return [account, *submitter, policy]
    # The owner of the namespace decides who may submit jobs in it, and what its other pods reach.
    pods = {"podSelector": {"matchLabels": MANAGED_BY}}
    policy["spec"] |= {**pods, "ingress": [{"from": [pods]}]}
    return [account, policy]


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
    pulling = {"imagePullSecrets": [{"name": pull.name}]}
    return [
        pull_secret(namespace, pull),
        *({**each, **(pulling if each["kind"] == "ServiceAccount" else {})} for each in manifests),
    ]
