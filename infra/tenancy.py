"""The namespace that training runs in, and who may do what there."""

import pulumi

from infra.declare import declare
from infra.manifests import Manifest, restricted_namespace
from infra.rbac import grant, rule

NAME = "slipway-jobs"
JOB_ACCOUNT = "slipway-job"
"""What a job's pods run as: it has no rights, and its token is not mounted."""
SUBMITTER = "slipway-submitter"
"""For people and pipelines that submit and follow jobs without being cluster administrators."""


class JobNamespace(pulumi.ComponentResource):
    """The namespace `slipway-jobs`, with its accounts, their rights, and its network policy."""

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:infra:JobNamespace", name, None, opts)
        parent = pulumi.ResourceOptions(parent=self)
        namespace = declare(restricted_namespace(NAME), parent)
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        for manifest in contents():
            declare(manifest, inside)
        self.register_outputs({})


def contents() -> list[Manifest]:
    """Return what is in the namespace."""
    return [
        _account(JOB_ACCOUNT),
        _account(SUBMITTER),
        *grant(
            SUBMITTER,
            NAME,
            rule(
                "kubeflow.org",
                ["pytorchjobs"],
                ["create", "delete", "get", "list", "patch", "watch"],
            ),
            rule("", ["events", "pods", "pods/log"], ["get", "list", "watch"]),
            account=(NAME, SUBMITTER),
        ),
        _network_policy(),
    ]


def _account(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAME},
        "automountServiceAccountToken": False,
    }


def _network_policy() -> Manifest:
    """Return that only the namespace's own pods may reach its pods.

    The ranks of a job talk to each other with no authentication. It holds where the
    cluster's network enforces policies; the embedded cluster's does not.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "slipway-ranks-only", "namespace": NAME},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}]}],
        },
    }
