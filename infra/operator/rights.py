"""Who the training operator is in the cluster, and what it may do there.

Its release asks for rights to six kinds of job in every namespace. These are what its source
uses for PyTorchJobs in one namespace: the reconciler in `pkg/controller.v1/pytorch` and
`common`, and the webhook's certificate in `pkg/cert`, v1.9.4.
"""

from clusters.training_operator import NAME, NAMESPACE
from core.manifests import Manifest
from infra.rbac import grant, rule

CERTIFICATE = "training-operator-webhook-cert"
"""The Secret that the operator fills with its webhook's certificate."""
WEBHOOK = "validator.training-operator.kubeflow.org"
"""The operator looks its webhook up by this name (`webhookConfigurationName` in its main.go)."""


def rights(job_namespace: str) -> list[Manifest]:
    """Return the operator's roles and their bindings.

    Args:
        job_namespace: The only namespace whose PyTorchJobs it looks after.
    """
    account = (NAMESPACE, NAME)
    webhooks = "validatingwebhookconfigurations"
    # Some things it watches as a whole, and a list can't be bounded by name.
    return [
        *grant(
            "training-operator-jobs",
            job_namespace,
            rule("kubeflow.org", ["pytorchjobs"], ["delete", "get", "list", "watch"]),
            rule("kubeflow.org", ["pytorchjobs/status"], ["update"]),
            # Clusters that check who may hold up an owner's deletion ask for this one.
            rule("kubeflow.org", ["pytorchjobs/finalizers"], ["update"]),
            rule("", ["pods"], ["create", "delete", "get", "list", "patch", "watch"]),
            rule("", ["services"], ["create", "delete", "get", "list", "watch"]),
            rule("", ["events"], ["create", "patch"]),
            account=account,
        ),
        *grant(
            "training-operator-certificate",
            NAMESPACE,
            rule("", ["secrets"], ["list", "watch"]),
            rule("", ["secrets"], ["update"], [CERTIFICATE]),
            account=account,
        ),
        *grant(
            "training-operator-webhook",
            None,
            rule("admissionregistration.k8s.io", [webhooks], ["list", "watch"]),
            rule("admissionregistration.k8s.io", [webhooks], ["update"], [WEBHOOK]),
            account=account,
        ),
    ]
