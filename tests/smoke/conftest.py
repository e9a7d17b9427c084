"""Checks of a live stack, whichever cluster it is on: `make smoke STACK=…`.

The stack is the option --stack, else the variable SLIPWAY_STACK, else dev. A stack that is not
up is an error.
"""

import os
from typing import Any

import pytest
import testinfra

from infra import toolchain
from tests.smoke.kubectl import Kubectl
from tests.smoke.outputs import StackNotUpError, read

_OUTPUTS = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stack", default=os.environ.get("SLIPWAY_STACK", "dev"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `job` every job of the stack: their names are its outputs."""
    if "job" in metafunc.fixturenames:
        jobs = _outputs(metafunc.config).get("jobs", {})
        if not jobs:
            raise pytest.UsageError("the stack has no job to check; is `slipway:jobs` empty?")
        metafunc.parametrize("job", sorted(jobs))


def _outputs(config: pytest.Config) -> dict[str, Any]:
    if _OUTPUTS not in config.stash:
        try:
            config.stash[_OUTPUTS] = read(config.getoption("--stack"))
        except StackNotUpError as error:
            raise pytest.UsageError(str(error)) from None
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
