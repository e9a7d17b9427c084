"""A cluster for the tests that need one: with the training operator, the jobs' namespace and image.

A process that runs tests has one of its own, so that quotas, priorities and full nodes are nobody
else's.
"""

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from clusters.cluster import JOBS
from clusters.embedded import lifecycle, pki
from clusters.embedded.layout import Layout
from clusters.operator import NAME as OPERATOR
from clusters.operator.operator_ready import OperatorReadyHandler
from clusters.operator.training_operator import deployment, foundations
from core import toolchain
from core.context import Silence
from core.manifests import Manifest, restricted_namespace
from infra.namespace import contents
from jobs.run.submit import stop_all
from tests.engine.embedded_cluster import TestCluster, bring_in_trainer, program_images
from tests.engine.pytorchjob_stack import Jobs


@pytest.fixture(scope="session")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """A cluster with nothing in it."""
    made = TestCluster(Layout(tmp_path_factory.mktemp("cluster") / "cluster"))
    try:
        made.heal()
        yield made
    finally:
        lifecycle.remove(made.layout.directory)


@pytest.fixture(scope="session")
def kubeconfig(own_cluster: TestCluster) -> str:
    """The content of a kubeconfig with all rights on it."""
    return pki.kubeconfig(own_cluster.layout, "admin")


@pytest.fixture(scope="session")
def kubeconfig_file(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file that only its owner can read."""
    file = tmp_path_factory.mktemp("kubeconfig") / "kubeconfig"
    file.touch(0o600)
    file.write_text(kubeconfig)
    return file


@pytest.fixture(scope="session")
def jobs(own_cluster: TestCluster, kubeconfig: str, kubeconfig_file: Path) -> Jobs:
    """The namespace of the jobs on that cluster, with the operator that looks after it."""
    install_operator(own_cluster, kubeconfig)
    return Jobs(kubeconfig_file)


def install_operator(
    cluster: TestCluster,
    kubeconfig: str,
    namespace: str = JOBS,
    beside: Sequence[Manifest] | None = None,
) -> list[Manifest]:
    """Put there what a stack declares, or the operator and `beside`, and wait for it as a stack."""
    source, images = toolchain.path("training-operator-manifests"), program_images()
    own = [restricted_namespace(JOBS), *contents(JOBS, own=True, known={})]
    objects = [
        *(own if beside is None else beside),
        *foundations(source, namespace, images["tcpWait"]),
        deployment(source, namespace, images["trainingOperator"], images["tcpWait"]),
    ]
    # Of the operator's definition of a PyTorchJob an annotation could not hold the whole.
    cluster.kubectl("apply", "--server-side", "--filename=-", manifests=objects)
    ready = {"kubeconfig": kubeconfig, "jobNamespace": namespace, "deployment": OPERATOR}
    OperatorReadyHandler(stop_all).create(ready, Silence())
    return objects


@pytest.fixture(scope="session")
def trainer(own_cluster: TestCluster) -> str:
    """The trainer's image that its node has."""
    return bring_in_trainer(own_cluster)


@pytest.fixture
def job_name(jobs: Jobs) -> Iterator[str]:
    """A job's name that nobody else has; nothing of it must be left in the end."""
    made = f"own-{secrets.token_hex(4)}"
    yield made
    assert jobs.uids(made) == []
    assert jobs.items("pods", made) == []
