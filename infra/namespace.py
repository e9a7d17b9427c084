"""The jobs' namespace: its service accounts, their permissions, and its pull secret."""

from collections.abc import Mapping
from pathlib import Path

import pulumi

from clusters.cluster import JOB_ACCOUNT, Cluster
from clusters.image_registry import with_pull_secret
from core import tokens
from core.declare import declare, declare_all
from core.manifests import MANAGED_BY, Manifest, marked, rendered, restricted_namespace

_INSIDE = ["pods/exec", "pods/portforward"]
_EXEC = {"apiGroups": [""], "resources": _INSIDE, "verbs": ["create", "get"]}


def job_namespace(cluster: Cluster, *, may_exec: bool = False) -> pulumi.Resource:
    """Declare the jobs' namespace with its service accounts, roles and network policy.

    In a namespace that Slipway did not create, declare only the objects that Slipway's pods need.
    `may_exec` allows users who submit jobs to run commands in the jobs' pods.
    """
    parent = pulumi.ComponentResource(tokens.JOB_NAMESPACE, "jobs")
    inside = cluster.options(parent=parent)
    if cluster.own_namespace:
        namespace = restricted_namespace(cluster.namespace)
        if cluster.operator is not None:
            # An existing operator adds an init container without a security context to each
            # worker, which only this level admits. Slipway's own pods do not change.
            namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
        created = declare(marked(namespace), inside)
        inside = cluster.options(parent=parent, depends_on=[created])
    annotations = {} if cluster.identity is None else cluster.identity.annotations
    manifests = contents(
        cluster.namespace, own=cluster.own_namespace, known=annotations, may_exec=may_exec
    )
    # The mark shows other stacks the owner, even if they are not allowed to read the namespace.
    own = [marked(each) for each in manifests]
    declare_all(with_pull_secret(own, cluster.namespace, cluster.pull_secret), inside)
    parent.register_outputs({})
    return parent


def contents(
    namespace: str, *, own: bool, known: Mapping[str, pulumi.Input[str]], may_exec: bool = False
) -> list[Manifest]:
    """Return manifests for objects in a namespace; `own` is true if Slipway created the namespace.

    `known` contains annotations for the jobs' service account.
    """
    file = Path(__file__).with_suffix(".yaml")
    account, *submitter, policy = rendered(file, namespace=namespace, account=JOB_ACCOUNT)
    if known:
        account["metadata"]["annotations"] = dict(known)
    if may_exec:  # for users who may submit jobs
        for role in (each for each in submitter if each["kind"] == "Role"):
            role["rules"].append(_EXEC)
    if own:
        return [account, *submitter, policy]
    # In an existing namespace, its owner decides who submits jobs, and what other pods can reach.
    pods = {"podSelector": {"matchLabels": MANAGED_BY}}
    policy["spec"] |= {**pods, "ingress": [{"from": [pods]}]}
    return [account, policy]
