"""`make logs` finds a rank's pod by its labels, and says what there is when it doesn't."""

import json
from typing import Any

import pytest

from scripts.stack.cli import Cli
from scripts.stack.logs import NoLogs, Pod, chosen, kubeconfig_of, show


def pod(job: str, role: str, index: int, processes: int = 1) -> Pod:
    variables = {"PET_NPROC_PER_NODE": str(processes)}
    if job != "elastic":
        variables["PET_NODE_RANK"] = str(index + (role == "worker"))
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return Pod.of(
        {
            "spec": {"containers": [{"name": "pytorch", "env": env}]},
            "metadata": {
                "namespace": "slipway-jobs",
                "name": f"{job}-{role}-{index}",
                "labels": {
                    "training.kubeflow.org/job-name": job,
                    "training.kubeflow.org/replica-type": role,
                    "training.kubeflow.org/replica-index": str(index),
                },
            },
        }
    )


PODS = [
    pod("mnist", "worker", 1),
    pod("cifar", "master", 0),
    pod("mnist", "master", 0),
    pod("mnist", "worker", 0),
]


@pytest.mark.parametrize(
    ("rank", "names"),
    [
        (None, ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]),
        (0, ["mnist-master-0"]),
        (2, ["mnist-worker-1"]),
    ],
)
def test_a_rank_is_the_master_or_a_worker(rank: int | None, names: list[str]) -> None:
    assert [found.name for found in chosen(PODS, "mnist", rank)] == names


def test_several_processes_of_a_replica_are_several_ranks() -> None:
    pods = [pod("mnist", "worker", 0, processes=2), pod("mnist", "master", 0, processes=2)]
    assert [found.name for found in chosen(pods, "mnist", 2)] == ["mnist-worker-0"]
    assert [list(found.ranks) for found in chosen(pods, "mnist", None)] == [[0, 1], [2, 3]]


def test_the_first_worker_of_an_elastic_job_is_number_0() -> None:
    assert list(pod("elastic", "worker", 0).ranks) == [0]


@pytest.mark.parametrize(
    ("job", "rank", "message"),
    [
        ("mnist", 3, "Job mnist has no pod of rank 3. There are ranks 0, 1, 2."),
        ("minst", 0, "There are no pods of a job 'minst'. Jobs with pods: cifar, mnist."),
        ("", None, "Say which job: JOB=NAME. Jobs with pods: cifar, mnist."),
    ],
)
def test_what_is_not_there_is_named_with_what_is(job: str, rank: int | None, message: str) -> None:
    with pytest.raises(NoLogs) as nothing:
        chosen(PODS, job, rank)
    assert str(nothing.value) == message


def test_without_any_job_that_is_said() -> None:
    with pytest.raises(NoLogs, match=r"Jobs with pods: none\.$"):
        chosen([], "mnist", None)


SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


@pytest.mark.parametrize(
    ("resources", "kubeconfig"),
    [
        (None, None),
        ([{"type": "pulumi:pulumi:Stack"}], None),
        ([{"outputs": {}}, {"outputs": {"kubeconfig": "plain"}}], "plain"),
        ([{"outputs": {"kubeconfig": {**SECRET, "plaintext": json.dumps("a\nb")}}}], "a\nb"),
        ([{"outputs": {"kubeconfig": {**SECRET, "ciphertext": "v1:x"}}}], None),
    ],
)
def test_the_kubeconfig_is_that_of_the_clusters_resource(
    resources: Any, kubeconfig: str | None
) -> None:
    assert kubeconfig_of({"deployment": {"resources": resources}}) == kubeconfig


def test_a_stack_that_is_not_there_has_no_logs(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(NoLogs, match="`make up STACK=dev` makes one"):
        show(Cli("dev"), "mnist", None)
