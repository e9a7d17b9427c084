"""What each account may do and may not, as the API server itself answers.

Rights are listed as `verb resource namespace`, accounts as `namespace:name`; `JOBS` stands for the
namespace of the stack's jobs and `-` for the whole cluster. Asking for others takes an
administrator's kubeconfig.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.smoke.kubectl import Kubectl

pytestmark = pytest.mark.own_namespace

OPERATOR, JOB, SUBMITTER, UNNAMED = (
    "kubeflow:training-operator",
    "JOBS:slipway-job",
    "JOBS:slipway-submitter",
    "JOBS:default",
)
Allows = Callable[[str, str], bool]


@pytest.fixture
def allows(kubectl: Kubectl, jobs: str) -> Allows:
    """The API server's answers, by account and right."""
    return lambda *words: kubectl.allows(*(each.replace("JOBS", jobs) for each in words))


@pytest.mark.own_operator
@pytest.mark.parametrize("right", [
    "watch pytorchjobs.kubeflow.org JOBS", "update pytorchjobs.kubeflow.org/status JOBS",
    "create pods JOBS", "delete pods JOBS", "create services JOBS", "create events JOBS",
    "update secrets/training-operator-webhook-cert kubeflow",
])  # fmt: skip
def test_the_operator_may_do_its_work(allows: Allows, right: str) -> None:
    assert allows(OPERATOR, right)


@pytest.mark.own_operator
@pytest.mark.parametrize("right", [
    "create pytorchjobs.kubeflow.org JOBS", "create pods/exec JOBS",
    "create pods kube-system", "create pods kubeflow", "create pods default",
    "list secrets JOBS", "list secrets kube-system", "list secrets -", "list nodes -",
    "create serviceaccounts/token JOBS", "create rolebindings.rbac.authorization.k8s.io JOBS",
    "create clusterroles.rbac.authorization.k8s.io -",
    "create clusterrolebindings.rbac.authorization.k8s.io -",
    "delete customresourcedefinitions.apiextensions.k8s.io -",
])  # fmt: skip
def test_the_operator_may_do_no_more(allows: Allows, right: str) -> None:
    assert not allows(OPERATOR, right)


@pytest.mark.parametrize("account", [JOB, UNNAMED])
@pytest.mark.parametrize("right", [
    "get pods JOBS", "create pods JOBS", "create pods/exec JOBS", "get configmaps JOBS",
    "get pytorchjobs.kubeflow.org JOBS", "delete pytorchjobs.kubeflow.org JOBS",
    "list secrets JOBS", "list secrets -", "list nodes -",
])  # fmt: skip
def test_training_code_may_do_nothing(allows: Allows, account: str, right: str) -> None:
    assert not allows(account, right)


@pytest.mark.parametrize("right", [
    "create pytorchjobs.kubeflow.org JOBS", "watch pytorchjobs.kubeflow.org JOBS",
    "delete pytorchjobs.kubeflow.org JOBS", "list pods JOBS", "get pods/log JOBS",
    "list events JOBS",
])  # fmt: skip
def test_a_submitter_may_run_and_follow_jobs(allows: Allows, right: str) -> None:
    assert allows(SUBMITTER, right)


@pytest.mark.parametrize("right", [
    "create pytorchjobs.kubeflow.org default", "update pytorchjobs.kubeflow.org/status JOBS",
    "create pods JOBS", "list secrets JOBS", "list pods kubeflow",
    "create serviceaccounts/token JOBS", "create rolebindings.rbac.authorization.k8s.io JOBS",
    "list nodes -",
])  # fmt: skip
def test_a_submitter_may_do_no_more(allows: Allows, right: str) -> None:
    assert not allows(SUBMITTER, right)


def test_a_submitter_may_run_commands_in_pods_only_if_the_stack_says_so(
    allows: Allows, outputs: dict[str, Any]
) -> None:
    """By `slipway:exec`, which the output of a stack of an earlier Slipway does not tell."""
    assert allows(SUBMITTER, "create pods/exec JOBS") == outputs["cluster"].get("exec", False)
