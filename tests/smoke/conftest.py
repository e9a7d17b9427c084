"""Checks of a live stack, whichever cluster it is on: `make smoke STACK=…`.

The stack is the option --stack, else the variable SLIPWAY_STACK, else dev. A stack that is not
up is an error.
"""

import os
from typing import Any

import pytest
import testinfra

from core import toolchain
from tests.smoke.kubectl import Kubectl
from tests.smoke.outputs import read

_OUTPUTS = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stack", default=os.environ.get("SLIPWAY_STACK", "dev"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test every `job` of the stack, or every `namespace` that is the stack's own."""
    outputs = _outputs(metafunc.config)
    if "job" in metafunc.fixturenames:
        jobs = outputs.get("jobs", {})
        if not jobs:
            raise pytest.UsageError("the stack has no job to check; is `slipway:jobs` empty?")
        metafunc.parametrize("job", sorted(jobs))
    if "namespace" in metafunc.fixturenames:
        own = (
            pytest.param(outputs["cluster"]["namespace"], marks=pytest.mark.own_namespace),
            pytest.param("kubeflow", marks=pytest.mark.own_operator),
        )
        metafunc.parametrize("namespace", own)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about the operator and the namespace where they are somebody else's."""
    marks = {"ownNamespace": "own_namespace", "ownOperator": "own_operator"}
    others = [mark for key, mark in marks.items() if not _outputs(config)["cluster"][key]]
    left_out = [item for item in items if any(map(item.get_closest_marker, others))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _outputs(config: pytest.Config) -> dict[str, Any]:
    if _OUTPUTS not in config.stash:
        config.stash[_OUTPUTS] = read(config.getoption("--stack"))
    return config.stash[_OUTPUTS]


@pytest.fixture(scope="session")
def outputs(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The stack's outputs, secrets included."""
    return _outputs(pytestconfig)


@pytest.fixture
def result(job: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """What the stack says of one job."""
    found: dict[str, Any] = outputs["jobs"][job]
    return found


@pytest.fixture(scope="session")
def kubectl(outputs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Reach the stack's cluster."""
    file = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    file.touch(0o600)
    file.write_text(outputs["kubeconfig"])
    return Kubectl(testinfra.get_host("local://"), toolchain.path("kubectl"), file)


@pytest.fixture(scope="session")
def jobs(outputs: dict[str, Any]) -> str:
    """The namespace of the stack's jobs."""
    return str(outputs["cluster"]["namespace"])
