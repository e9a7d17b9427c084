"""What each account may do and may not, as the API server itself answers.

Rights are listed as `verb resource namespace`, accounts as `namespace:name`; `JOBS` stands for the
namespace of the stack's jobs and `-` for the whole cluster. Asking for others takes an
administrator's kubeconfig.
"""

import pytest

from tests.smoke.rights import Rights

pytestmark = pytest.mark.own_namespace

OPERATOR, JOB, SUBMITTER, UNNAMED = (
    "kubeflow:training-operator",
    "JOBS:slipway-job",
    "JOBS:slipway-submitter",
    "JOBS:default",
)


@pytest.mark.own_operator
@pytest.mark.parametrize(
    "right",
    [
        "watch pytorchjobs.kubeflow.org JOBS",
        "update pytorchjobs.kubeflow.org/status JOBS",
        "create pods JOBS",
        "delete pods JOBS",
        "create services JOBS",
        "create events JOBS",
        "update secrets/training-operator-webhook-cert kubeflow",
    ],
)
def test_the_operator_may_do_its_work(rights: Rights, right: str) -> None:
    assert rights.allows(OPERATOR, right)


@pytest.mark.own_operator
@pytest.mark.parametrize(
    "right",
    [
        "create pytorchjobs.kubeflow.org JOBS",
        "create pods kube-system",
        "create pods kubeflow",
        "create pods default",
        "create pods/exec JOBS",
        "list secrets JOBS",
        "list secrets kube-system",
        "list secrets -",
        "create serviceaccounts/token JOBS",
        "list nodes -",
        "create clusterroles.rbac.authorization.k8s.io -",
        "create clusterrolebindings.rbac.authorization.k8s.io -",
        "create rolebindings.rbac.authorization.k8s.io JOBS",
        "delete customresourcedefinitions.apiextensions.k8s.io -",
    ],
)
def test_the_operator_may_do_no_more(rights: Rights, right: str) -> None:
    assert not rights.allows(OPERATOR, right)


@pytest.mark.parametrize("account", [JOB, UNNAMED])
@pytest.mark.parametrize(
    "right",
    [
        "get pods JOBS",
        "list secrets JOBS",
        "get configmaps JOBS",
        "create pods JOBS",
        "create pods/exec JOBS",
        "get pytorchjobs.kubeflow.org JOBS",
        "delete pytorchjobs.kubeflow.org JOBS",
        "list nodes -",
        "list secrets -",
    ],
)
def test_training_code_may_do_nothing(rights: Rights, account: str, right: str) -> None:
    assert not rights.allows(account, right)


@pytest.mark.parametrize(
    "right",
    [
        "create pytorchjobs.kubeflow.org JOBS",
        "watch pytorchjobs.kubeflow.org JOBS",
        "delete pytorchjobs.kubeflow.org JOBS",
        "list pods JOBS",
        "get pods/log JOBS",
        "list events JOBS",
    ],
)
def test_a_submitter_may_run_and_follow_jobs(rights: Rights, right: str) -> None:
    assert rights.allows(SUBMITTER, right)


@pytest.mark.parametrize(
    "right",
    [
        "create pytorchjobs.kubeflow.org default",
        "update pytorchjobs.kubeflow.org/status JOBS",
        "create pods JOBS",
        "create pods/exec JOBS",
        "list secrets JOBS",
        "create serviceaccounts/token JOBS",
        "create rolebindings.rbac.authorization.k8s.io JOBS",
        "list pods kubeflow",
        "list nodes -",
    ],
)
def test_a_submitter_may_do_no_more(rights: Rights, right: str) -> None:
    assert not rights.allows(SUBMITTER, right)
