"""Smoke checks look at what is the stack's own, and leave out what is somebody else's."""

import sys
from pathlib import Path
from typing import Any

import pytest

from core.process import run

_CHECK = """\
import pytest
from core import toolchain
from tests.smoke import outputs
from tests.smoke.kubectl import Kubectl
cluster = {"namespace": "team-a", "ownNamespace": %s, "ownOperator": %s, "exec": True}
jobs = {"mine": {"state": "Succeeded"}}
outputs.read = lambda stack: {"cluster": cluster, "jobs": jobs, "kubeconfig": ""}
toolchain.path = str
Kubectl.items = lambda *_: []
Kubectl.allows = lambda self, account, right: "pods/exec" in right
raise SystemExit(pytest.main(["tests/smoke", "--quiet", *%s]))
"""

JOB = "test_jobs.py::test_the_stack_reports_that_it_succeeded[mine]"
SUBMITTER = "test_access.py::test_a_submitter_may_run_and_follow_jobs[list pods JOBS]"
OPERATOR = "test_access.py::test_the_operator_may_do_its_work[create pods JOBS]"
READY = "test_cluster.py::test_the_training_operator_is_available_as_it_was_last_declared"
THEIR_PODS = "test_cluster.py::test_every_pod_is_non_root[team-a]"
ITS_PODS = "test_cluster.py::test_every_pod_is_non_root[kubeflow]"


@pytest.mark.parametrize(
    ("own_namespace", "own_operator", "looked_at", "left_out"),
    [
        (True, False, {JOB, SUBMITTER, THEIR_PODS}, {OPERATOR, READY, ITS_PODS}),
        (False, True, {JOB, READY, ITS_PODS}, {SUBMITTER, OPERATOR, THEIR_PODS}),
    ],
)
def test_what_is_not_the_stacks_own_is_left_out(
    root: Path, *, own_namespace: bool, own_operator: bool, looked_at: set[str], left_out: set[str]
) -> None:
    printed = checked(root, own_namespace, own_operator, ["--collect-only"])
    collected = {line.rpartition("/")[2] for line in printed.splitlines()}
    assert looked_at <= collected
    assert not left_out & collected


def test_a_stack_without_the_jobs_that_it_removed_and_with_exec_is_well(root: Path) -> None:
    chosen = ["-k", "test_jobs or run_commands or every_pod"]
    assert "2 passed, 5 skipped" in checked(root, True, False, chosen)


def checked(root: Path, *choice: Any) -> str:
    # Without plugins, whose import would take most of the time.
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return run(sys.executable, "-c", _CHECK % choice, cwd=root, variables=quick, limit=120)
