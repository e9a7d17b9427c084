"""A training job as a value becomes a PyTorchJob that the operator and Pod Security admit."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.catalog import CATALOG
from jobs.spec import TrainingJob, manifest
from jobs.submit import spec_hash

IMAGE = "localhost/slipway-trainer:0123456789ab"

jobs = st.builds(
    TrainingJob,
    name=st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True),
    module=st.sampled_from(["mnist", None]),
    command=st.tuples(st.text(min_size=1)),
    args=st.lists(st.text()).map(tuple),
    backend=st.sampled_from(["gloo", "nccl"]),
    workers=st.integers(1, 999),
    epochs=st.integers(1, 10_000),
    batch_size=st.integers(1, 10_000),
    learning_rate=st.floats(1e-9, 10),
    momentum=st.just(0.9),
    seed=st.integers(0, 2**31),
    cpu=st.sampled_from(["400m", "2", "0.5", 3, 1.5]),
    memory=st.sampled_from(["512Mi", "2Gi"]),
    timeout=st.integers(1, 10**6),
    env=st.dictionaries(st.from_regex(r"[A-Z_]{1,8}X", fullmatch=True), st.text(max_size=5)),
)


def rendered(job: TrainingJob, image: str = IMAGE) -> dict[str, Any]:
    return manifest(
        job, namespace="slipway-jobs", service_account="slipway-job", trainer_image=image
    )


def template(job: TrainingJob, kind: str = "Master") -> dict[str, Any]:
    spec: dict[str, Any] = rendered(job)["spec"]["pytorchReplicaSpecs"][kind]["template"]["spec"]
    return spec


def container(job: TrainingJob) -> dict[str, Any]:
    (only,) = template(job)["containers"]
    found: dict[str, Any] = only
    return found


@given(jobs)
def test_the_same_job_always_gives_the_same_plain_document(job: TrainingJob) -> None:
    once, again = rendered(job), rendered(job)
    assert once == again
    assert json.loads(json.dumps(once)) == once


@given(jobs)
def test_the_order_of_environment_variables_does_not_matter(job: TrainingJob) -> None:
    backwards = dict(reversed(list(job.env.items())))
    turned = TrainingJob(name=job.name, module="mnist", env=backwards)
    assert rendered(turned) == rendered(TrainingJob(name=job.name, module="mnist", env=job.env))


@given(jobs)
def test_there_is_one_master_and_as_many_workers_as_asked_for(job: TrainingJob) -> None:
    replicas = rendered(job)["spec"]["pytorchReplicaSpecs"]
    assert {kind: spec["replicas"] for kind, spec in replicas.items()} == {
        "Master": 1,
        "Worker": job.workers,
    }
    assert job.world_size == job.workers + 1


@given(jobs)
def test_pod_security_restricted_admits_the_pods(job: TrainingJob) -> None:
    # https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    for kind in ("Master", "Worker"):
        pod = template(job, kind)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all("emptyDir" in volume for volume in pod["volumes"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for each in pod["containers"]:
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@given(jobs)
def test_a_read_only_container_may_write_where_programs_need_to(job: TrainingJob) -> None:
    assert container(job)["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"] for mount in container(job)["volumeMounts"]}
    assert mounts == {"/tmp", "/dev/shm"}


@given(jobs)
def test_a_run_that_nobody_waits_for_ends_after_its_timeout(job: TrainingJob) -> None:
    policy = rendered(job)["spec"]["runPolicy"]
    assert policy["activeDeadlineSeconds"] > job.timeout
    assert policy["backoffLimit"] == job.backoff_limit


def test_a_rank_cannot_talk_to_the_api_server() -> None:
    assert template(CATALOG["mnist-gloo"])["automountServiceAccountToken"] is False


def test_mnist_gloo_is_one_master_and_three_workers_started_again_on_failure() -> None:
    replicas = rendered(CATALOG["mnist-gloo"])["spec"]["pytorchReplicaSpecs"]
    assert replicas["Worker"]["replicas"] == 3
    assert {spec["restartPolicy"] for spec in replicas.values()} == {"OnFailure"}
    assert container(CATALOG["mnist-gloo"])["name"] == "pytorch"
    assert container(CATALOG["mnist-gloo"])["image"] == IMAGE


def test_mnist_gloo_fits_two_cores_beside_the_system() -> None:
    job = CATALOG["mnist-gloo"]
    requested = container(job)["resources"]["requests"]["cpu"]
    assert requested.endswith("m")
    assert int(requested[:-1]) * job.world_size <= 1600


def test_the_training_programs_options_come_from_the_jobs_fields() -> None:
    job = TrainingJob(name="mine", module="mnist", epochs=3, batch_size=128, learning_rate=0.5)
    args = container(job)["args"]
    options = dict(zip(args[::2], args[1::2], strict=True))
    assert options["--epochs"] == "3"
    assert options["--batch-size"] == "128"
    assert float(options["--lr"]) == 0.5
    assert options["--backend"] == "gloo"


def test_a_job_of_ones_own_runs_its_image_and_command() -> None:
    job = TrainingJob(name="mine", image="example.org/mine:1", command=("train",), args=("-v",))
    assert container(job)["image"] == "example.org/mine:1"
    assert container(job)["command"] == ["train"]
    assert container(job)["args"] == ["-v"]


def test_nccl_asks_for_a_gpu_and_gloo_does_not() -> None:
    assert container(CATALOG["mnist-nccl"])["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in container(CATALOG["mnist-gloo"])["resources"]["limits"]


@pytest.mark.parametrize(("cpu", "threads"), [("400m", "1"), ("2", "2"), ("3.5", "3")])
def test_a_rank_has_as_many_threads_as_whole_cores(cpu: str, threads: str) -> None:
    job = TrainingJob(name="mine", module="mnist", cpu=cpu)
    environment = {entry["name"]: entry["value"] for entry in container(job)["env"]}
    assert environment["OMP_NUM_THREADS"] == threads


def test_ones_own_environment_wins() -> None:
    job = TrainingJob(name="mine", module="mnist", env={"OMP_NUM_THREADS": "7"})
    assert {"name": "OMP_NUM_THREADS", "value": "7"} in container(job)["env"]


def test_what_can_alter_the_result_alters_the_hash_and_nothing_else_does() -> None:
    base = TrainingJob(name="mine", module="mnist")
    same = [
        TrainingJob(name="mine", module="mnist", timeout=7),
        TrainingJob(name="mine", module="mnist", backoff_limit=3),
    ]
    other = [
        TrainingJob(name="mine", module="mnist", learning_rate=0.02),
        TrainingJob(name="mine", module="mnist", workers=2),
        TrainingJob(name="mine", module="mnist", restart_policy="Never"),
    ]
    assert {spec_hash(rendered(job)) for job in same} == {spec_hash(rendered(base))}
    hashes = {spec_hash(rendered(job)) for job in [base, *other]}
    hashes.add(spec_hash(rendered(base, image="localhost/slipway-trainer:other")))
    assert len(hashes) == len(other) + 2
