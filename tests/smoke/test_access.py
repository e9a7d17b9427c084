"""What each account may do and may not, as the API server itself answers.

Rights are listed as `verb resource namespace`; `-` stands for the whole cluster.
"""

import pytest

from tests.smoke.kubectl import Kubectl

OPERATOR = "system:serviceaccount:kubeflow:training-operator"
JOB = "system:serviceaccount:slipway-jobs:slipway-job"
SUBMITTER = "system:serviceaccount:slipway-jobs:slipway-submitter"
UNNAMED = "system:serviceaccount:slipway-jobs:default"


@pytest.mark.parametrize(
    "right",
    [
        "watch pytorchjobs.kubeflow.org slipway-jobs",
        "update pytorchjobs.kubeflow.org/status slipway-jobs",
        "create pods slipway-jobs",
        "delete pods slipway-jobs",
        "create services slipway-jobs",
        "create events slipway-jobs",
        "update secrets/training-operator-webhook-cert kubeflow",
    ],
)
def test_the_operator_may_do_its_work(kubectl: Kubectl, right: str) -> None:
    assert allows(kubectl, OPERATOR, right)


@pytest.mark.parametrize(
    "right",
    [
        "create pytorchjobs.kubeflow.org slipway-jobs",
        "create pods kube-system",
        "create pods kubeflow",
        "create pods default",
        "create pods/exec slipway-jobs",
        "list secrets slipway-jobs",
        "list secrets kube-system",
        "list secrets -",
        "create serviceaccounts/token slipway-jobs",
        "list nodes -",
        "create clusterroles.rbac.authorization.k8s.io -",
        "create clusterrolebindings.rbac.authorization.k8s.io -",
        "create rolebindings.rbac.authorization.k8s.io slipway-jobs",
        "delete customresourcedefinitions.apiextensions.k8s.io -",
    ],
)
def test_the_operator_may_do_no_more(kubectl: Kubectl, right: str) -> None:
    assert not allows(kubectl, OPERATOR, right)


@pytest.mark.parametrize("account", [JOB, UNNAMED])
@pytest.mark.parametrize(
    "right",
    [
        "get pods slipway-jobs",
        "list secrets slipway-jobs",
        "get configmaps slipway-jobs",
        "create pods slipway-jobs",
        "create pods/exec slipway-jobs",
        "get pytorchjobs.kubeflow.org slipway-jobs",
        "delete pytorchjobs.kubeflow.org slipway-jobs",
        "list nodes -",
        "list secrets -",
    ],
)
def test_training_code_may_do_nothing(kubectl: Kubectl, account: str, right: str) -> None:
    assert not allows(kubectl, account, right)


@pytest.mark.parametrize(
    "right",
    [
        "create pytorchjobs.kubeflow.org slipway-jobs",
        "watch pytorchjobs.kubeflow.org slipway-jobs",
        "delete pytorchjobs.kubeflow.org slipway-jobs",
        "list pods slipway-jobs",
        "get pods/log slipway-jobs",
        "list events slipway-jobs",
    ],
)
def test_a_submitter_may_run_and_follow_jobs(kubectl: Kubectl, right: str) -> None:
    assert allows(kubectl, SUBMITTER, right)


@pytest.mark.parametrize(
    "right",
    [
        "create pytorchjobs.kubeflow.org default",
        "update pytorchjobs.kubeflow.org/status slipway-jobs",
        "create pods slipway-jobs",
        "create pods/exec slipway-jobs",
        "list secrets slipway-jobs",
        "create serviceaccounts/token slipway-jobs",
        "create rolebindings.rbac.authorization.k8s.io slipway-jobs",
        "list pods kubeflow",
        "list nodes -",
    ],
)
def test_a_submitter_may_do_no_more(kubectl: Kubectl, right: str) -> None:
    assert not allows(kubectl, SUBMITTER, right)


def allows(kubectl: Kubectl, account: str, right: str) -> bool:
    """Return whether `account` has `right`; raises RuntimeError when there is no answer."""
    verb, resource, namespace = right.split(" ")
    resource, _, subresource = resource.partition("/")
    where = ["--all-namespaces"] if namespace == "-" else ["--namespace", namespace]
    # kubectl reads `secrets/NAME` as one object and has an option for a subresource.
    if subresource == "training-operator-webhook-cert":
        return kubectl.allows(account, verb, f"{resource}/{subresource}", *where)
    extra = ["--subresource", subresource] if subresource else []
    return kubectl.allows(account, verb, resource, *where, *extra)
