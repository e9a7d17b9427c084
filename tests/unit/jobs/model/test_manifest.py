"""What is submitted for a job is a PyTorchJob that the operator and Pod Security admit."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from core import toolchain
from infra.provider.engine import plain_map, wrap_map
from jobs.config import CATALOG
from jobs.model import program
from jobs.model.job import TrainingJob, declaration
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.parts import MODULES, Build, Elastic, Limits, Master, SecretKey, Volume
from jobs.model.pytorchjob import Topology
from jobs.model.submission import Submission
from jobs.plan import shares
from tests.unit.jobs_declared import IMAGE, jobs, pods, rendered, submitted, variables

LAUNCH = ["python3", "-m", "slipway_trainer.launch"]
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def replicas(job: TrainingJob) -> Any:
    return rendered(job)["spec"]["pytorchReplicaSpecs"]


def pod(job: TrainingJob, role: str = "Master") -> Any:
    return pods(rendered(job))[role]


def container(job: TrainingJob, role: str = "Master") -> Any:
    (only,) = pod(job, role)["containers"]
    return only


def environment(job: TrainingJob, role: str = "Master") -> dict[str, Any]:
    return variables(pod(job, role))


def options(job: TrainingJob) -> dict[str, str]:
    args = container(job)["args"]
    return dict(zip(args[::2], args[1::2], strict=True))


def mnist(**fields: Any) -> TrainingJob:
    return TrainingJob(name="mine", module="mnist", **fields)


def own(*command: str, **fields: Any) -> TrainingJob:
    return TrainingJob(name="mine", image="example.org/mine:1", command=command or None, **fields)


@few
@given(jobs)
def test_the_inputs_of_a_run_submit_the_same_by_way_of_the_engine(job: TrainingJob) -> None:
    before = submitted(job)
    after = Submission.from_inputs(plain_map(wrap_map(before.inputs())))
    document = manifest(before)
    assert manifest(after) == document
    assert json.loads(json.dumps(document)) == document, "plain JSON"
    assert after.digest() == before.digest()


@pytest.fixture(scope="session")
def validator() -> jsonschema.Draft202012Validator:
    """What the operator's own CRD says of a PyTorchJob."""
    path = toolchain.path("training-operator-manifests") / "base/crds/kubeflow.org_pytorchjobs.yaml"
    document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    (version,) = document["spec"]["versions"]
    return jsonschema.Draft202012Validator(version["schema"]["openAPIV3Schema"])


@few
@given(job=jobs)
def test_the_operators_own_schema_takes_every_job(
    job: TrainingJob, validator: jsonschema.Draft202012Validator
) -> None:
    found, schema = rendered(job), cast("dict[str, Any]", validator.schema)
    validator.validate(found)
    assert no_unknown_fields(found["spec"], schema["properties"]["spec"])


def no_unknown_fields(document: Any, schema: dict[str, Any]) -> bool:
    """Return whether all of `document` is in `schema`: the API server drops what isn't."""
    if isinstance(document, list):
        return all(no_unknown_fields(each, schema.get("items", {})) for each in document)
    if not isinstance(document, dict) or "properties" not in schema:
        inside = schema.get("additionalProperties")
        values = document.values() if isinstance(document, dict) else ()
        return not isinstance(inside, dict) or all(no_unknown_fields(v, inside) for v in values)
    known = schema["properties"]
    assert document.keys() <= known.keys(), document.keys() - known.keys()
    return all(no_unknown_fields(value, known[key]) for key, value in document.items())


@few
@given(jobs)
def test_the_order_of_environment_variables_does_not_matter(job: TrainingJob) -> None:
    backwards = dict(reversed(list(job.env.items())))
    assert rendered(mnist(env=backwards)) == rendered(mnist(env=job.env))


@few
@given(jobs)
def test_a_run_counts_the_processes_that_the_job_asks_for(job: TrainingJob) -> None:
    topology = Topology.of_object(rendered(job))
    assert topology.replicas == len(shares(job))
    assert topology.world_size == len(shares(job)) * job.processes_per_node
    assert topology.elastic == (job.elastic is not None)
    assert Topology.of_declared(declaration(job)) == topology


@few
@given(jobs)
def test_pod_security_restricted_admits_the_pods(job: TrainingJob) -> None:
    # https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    volumes = {"configMap", "emptyDir", "persistentVolumeClaim"}
    for role in replicas(job):
        found = pod(job, role)
        assert found["automountServiceAccountToken"] is False
        assert found["securityContext"]["runAsNonRoot"] is True
        assert found["securityContext"]["runAsUser"] > 0
        assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all(len(each.keys() & volumes) == 1 and len(each) == 2 for each in found["volumes"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & found.keys()
        for each in [*found["containers"], *found.get("initContainers", [])]:
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "hostPort" not in str(each)


@few
@given(jobs)
def test_a_read_only_container_may_write_to_its_volumes(job: TrainingJob) -> None:
    for role in replicas(job):
        assert container(job, role)["securityContext"]["readOnlyRootFilesystem"] is True
        mounts = container(job, role)["volumeMounts"]
        places = [each["mountPath"] for each in mounts]
        assert {"/tmp", "/dev/shm", "/work"} <= set(places)
        assert len(set(places)) == len(places)
        volumes = [each["name"] for each in pod(job, role)["volumes"]]
        assert sorted(volumes) == sorted(each["name"] for each in mounts)
        assert len(set(volumes)) == len(volumes)


@pytest.mark.parametrize(
    ("program", "place"),
    [
        ({"module": "mnist"}, "/work"),
        ({"script": "train.py"}, "/work"),
        ({"script": "train.py", "working_dir": "src"}, "/work"),  # the launcher goes there
        ({"image": "example.org/mine:1"}, None),
        ({"build": Build(context="x")}, None),
        ({"build": Build(context="x"), "working_dir": "/work"}, "/work"),
    ],
)
def test_an_image_starts_in_its_own_directory(program: dict[str, Any], place: str | None) -> None:
    job = TrainingJob(name="mine", **program)
    assert container(job).get("workingDir") == place
    is_launched = "script" in program and "working_dir" in program
    assert environment(job).get("SLIPWAY_WORKING_DIR") == ("src" if is_launched else None)


@few
@given(jobs)
def test_fields_that_the_operator_would_default_are_always_set(job: TrainingJob) -> None:
    spec = rendered(job)["spec"]
    assert spec["nprocPerNode"] == str(job.processes_per_node)
    assert spec["runPolicy"]["activeDeadlineSeconds"] > job.timeout, "a detached run ends, too"
    assert spec["runPolicy"]["backoffLimit"] == job.max_restarts
    assert spec["runPolicy"]["cleanPodPolicy"] == "None"
    for role, each in spec["pytorchReplicaSpecs"].items():
        assert each["restartPolicy"] == job.restart_policy
        assert each["replicas"] >= 1
        assert container(job, role)["name"] == "pytorch"
        resources, gpu = container(job, role)["resources"], "nvidia.com/gpu"
        assert resources["limits"]["memory"]
        assert resources["limits"].get(gpu) == resources["requests"].get(gpu)


def test_an_elastic_job_has_workers_alone_and_room_for_restarts() -> None:
    bounds = Elastic(min_replicas=2, max_restarts=5)
    spec = rendered(TrainingJob(name="mine", module="mnist_elastic", workers=3, elastic=bounds))[
        "spec"
    ]
    assert spec["pytorchReplicaSpecs"].keys() == {"Worker"}
    limits = {"minReplicas": 2, "maxReplicas": 3, "maxRestarts": 5}
    assert spec["elasticPolicy"] == {**limits, "rdzvBackend": "c10d"}
    assert spec["runPolicy"]["backoffLimit"] > 5


def test_a_job_without_workers_is_its_master_alone() -> None:
    job = mnist(workers=0, processes_per_node=2)
    assert replicas(job).keys() == {"Master"}
    assert container(job)["command"][:6] == [*LAUNCH, "--processes", "2", "--"]


def test_the_launcher_passes_the_jobs_fields_to_a_program_of_the_catalogue() -> None:
    job = mnist(epochs=3, batch_size=128, learning_rate=0.5)
    assert container(job)["command"][-2:] == ["-m", "slipway_trainer.mnist"]
    told = options(job)
    assert (told["--epochs"], told["--batch-size"]) == ("3", "128")
    assert float(told["--lr"]) == 0.5
    assert told["--backend"] == "gloo"
    for goal in ("accuracy=0.98", "val_loss=0.3", "top5_accuracy=1.0", "test_loss=12"):
        assert options(mnist(goal=goal))["--goal"] == goal
    assert "--goal" not in options(mnist())


@pytest.mark.parametrize("name", MODULES)
def test_a_program_of_the_catalogue_takes_its_options(name: str, root: Path) -> None:
    # torch is in the image alone, so the sources are read and not imported.
    folder = root / "images/trainer/slipway_trainer/demos"
    taken = (folder / "options.py").read_text() + (folder / f"{name}.py").read_text()
    module = MODULES[name]
    given = {*module.options.values(), "--backend", "--threads"}
    for option in given | {word for word in module.arguments if word.startswith("--")}:
        assert f'"{option}"' in taken, option


def test_a_job_of_the_catalogue_says_what_its_program_would_take_for_granted() -> None:
    assert (mnist().epochs, mnist().learning_rate) == (1, 0.01)
    assert TrainingJob(name="mine", module="cifar", epochs=7).epochs == 7
    assert TrainingJob(name="mine", script="train.py").epochs is None


def test_cifar_gets_its_data_and_output_directories() -> None:
    told = options(TrainingJob(name="mine", module="cifar", learning_rate=0.5))
    assert (told["--data-dir"], told["--output-dir"]) == ("/data/cifar10", "/work/outputs")
    assert float(told["--learning-rate"]) == 0.5


def test_args_follow_the_jobs_options_and_override_them() -> None:
    assert container(mnist(args=("--epochs", "9")))["args"][-2:] == ["--epochs", "9"]


def test_a_command_beside_a_script_is_started_by_the_launcher() -> None:
    command = ("torchrun", "--nproc-per-node", "2", "a/b.py", "{run_id}")
    job = TrainingJob(name="mine", script="folder", command=command, args=("-v",))
    found = container(job)
    launch = [*LAUNCH, "--processes", "1", "--command", "--"]
    assert found["command"] == [*launch, *command[:-1], "$(SLIPWAY_RUN_ID)"]
    assert found["args"] == ["-v"]


def test_a_script_that_was_not_read_is_not_submitted() -> None:
    with pytest.raises(ValueError, match="`script` and its files must be set together"):
        Submission(job=TrainingJob(name="mine", script="train.py"), image=IMAGE)


def test_a_custom_job_runs_its_image_with_its_command_or_that_of_the_image() -> None:
    for job, command in ((own("train", args=("-v",)), ["train"]), (own(args=("-v",)), None)):
        found = container(job)
        assert (found["image"], found["args"]) == ("example.org/mine:1", ["-v"])
        assert found.get("command") == command


def test_a_program_finds_a_name_for_its_user_also_in_another_image() -> None:
    """The trainer's has one in its passwd; and checkpoints go on with the key that they had."""
    job = own("train")
    assert environment(job)["USER"] == "slipway"
    assert environment(replace(job, env={"USER": "me"}))["USER"] == "me"
    assert "USER" not in environment(mnist())
    assert checkpoint_key(Submission(job=job, image=job.image)) == "16367857ee77eb82"


def test_placeholders_are_filled_in() -> None:
    words = ("--hosts", "{hosts}", "--rank={rank}", "--run_id", "{run_id}", '{"a": 1}')
    job = own(*words, args=("{rank}",))
    assert container(job)["command"] == [
        "--hosts", "mine-master-0,mine-worker-0", "--rank=$(RANK)", "--run_id",
        "$(SLIPWAY_RUN_ID)", '{"a": 1}',
    ]  # fmt: skip
    assert container(job)["args"] == ["$(RANK)"]


def test_a_pod_knows_its_run_by_a_label_of_its_own() -> None:
    reference = {"fieldRef": {"fieldPath": "metadata.labels['slipway.dev/run']"}}
    assert environment(mnist())["SLIPWAY_RUN_ID"] == reference


def test_a_single_process_is_local_rank_0_and_torchrun_numbers_several() -> None:
    """By `TORCHELASTIC_RUN_ID` frameworks find that their ranks are set."""
    alone, several = environment(mnist()), environment(mnist(processes_per_node=2))
    assert (alone["LOCAL_RANK"], alone["LOCAL_WORLD_SIZE"]) == ("0", "1")
    assert "TORCHELASTIC_RUN_ID" in alone
    assert not {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"} & several.keys()
    assert "TORCHELASTIC_RUN_ID" not in environment(CATALOG["mnist-elastic"], "Worker")


def test_outputs_are_copied_out_and_a_stop_leaves_time_for_it() -> None:
    job = mnist(outputs="abfs://container/folder")
    assert environment(job)["SLIPWAY_OUTPUTS"] == "abfs://container/folder"
    assert environment(job)["SLIPWAY_OUTPUT_DIR"] == "/work/outputs"
    assert "SLIPWAY_OUTPUTS" not in environment(mnist())
    period = "terminationGracePeriodSeconds"
    assert pod(job)[period] > pod(mnist())[period]


def test_a_value_from_a_secret_is_never_in_the_manifest() -> None:
    job = mnist(env={"TOKEN": SecretKey(secret="hub", key="token")})
    assert environment(job)["TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert program.secrets(job, "jobs", {"hfToken": "x"}) == []


def test_a_secret_of_the_configuration_comes_from_the_jobs_own_secret() -> None:
    job = mnist(env={"TOKEN": SecretKey(config="hfToken"), "LEVEL": "3"})
    assert environment(job)["TOKEN"] == {"secretKeyRef": {"name": "mine-env", "key": "TOKEN"}}
    (made,) = program.secrets(job, "jobs", {"hfToken": "ä b", "other": "x"})
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("mine-env", "jobs")
    assert made["data"] == {"TOKEN": base64.b64encode("ä b".encode()).decode()}


def test_nccl_asks_for_a_gpu_for_each_process_and_gloo_for_none() -> None:
    gpu = "nvidia.com/gpu"
    assert container(CATALOG["mnist-nccl"])["resources"]["limits"][gpu] == "1"
    several = mnist(backend="nccl", processes_per_node=4)
    assert container(several)["resources"]["requests"][gpu] == "4"
    assert gpu not in container(CATALOG["mnist-gloo"])["resources"]["limits"]
    assert container(mnist(gpus=2))["resources"]["limits"][gpu] == "2"


def test_the_master_may_differ_from_the_workers() -> None:
    job = mnist(cpu="1", memory="1Gi", master=Master(memory="4Gi", cpu="2"))
    assert container(job)["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
    assert container(job)["resources"]["limits"] == {"memory": "4Gi"}
    assert environment(job)["OMP_NUM_THREADS"] == "2"
    assert container(job, "Worker")["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert options(job)["--threads"] == "2"


def test_limits_are_used_as_declared_and_memory_is_always_limited() -> None:
    limits = Limits(cpu="2", memory="3Gi", ephemeral_storage="4Gi")
    job = mnist(memory="1Gi", ephemeral_storage="2Gi", limits=limits)
    assert container(job)["resources"] == {
        "requests": {"cpu": "400m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        "limits": {"cpu": "2", "memory": "3Gi", "ephemeral-storage": "4Gi"},
    }


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"memory": "1Gi"}, "512Mi"),
        ({"memory": "1Gi", "limits": Limits(memory="4Gi")}, "2048Mi"),
        ({"memory": "1Gi", "shared_memory": "100Mi"}, "100Mi"),
        ({"memory": "1k"}, "1Mi"),
    ],
)
def test_shared_memory_defaults_to_half_of_the_memory(fields: Any, size: str) -> None:
    (shared,) = (each for each in pod(mnist(**fields))["volumes"] if each["name"] == "shm")
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": size}


@pytest.mark.parametrize(
    ("cpu", "processes", "threads"),
    [("400m", 1, "1"), ("2", 1, "2"), ("3.5", 1, "3"), ("4", 2, "2"), ("1600m", 2, "1")],
)
def test_a_rank_has_as_many_threads_as_whole_cores(cpu: str, processes: int, threads: str) -> None:
    job = mnist(cpu=cpu, processes_per_node=processes)
    assert environment(job)["OMP_NUM_THREADS"] == options(job)["--threads"] == threads
    assert environment(replace(job, env={"OMP_NUM_THREADS": "7"}))["OMP_NUM_THREADS"] == "7"


def test_labels_and_annotations_are_on_the_job_and_its_pods() -> None:
    job = mnist(labels={"team": "vision"}, annotations={"example.org/note": "x"})
    found = rendered(job)
    for metadata in (found["metadata"], replicas(job)["Worker"]["template"]["metadata"]):
        assert metadata["labels"]["team"] == "vision"
        assert metadata["labels"]["slipway.dev/job"] == "mine"
        assert metadata["annotations"]["example.org/note"] == "x"
    assert "annotations" not in rendered(mnist())["metadata"]


def test_a_claim_for_a_host_path_is_another_for_another_path() -> None:
    def claim(**said: Any) -> str:
        job = mnist(volumes={"data": Volume(mount_path="/mnt/data", **said)})
        (volume,) = (each for each in pod(job)["volumes"] if each["name"] == "data")
        return str(volume["persistentVolumeClaim"]["claimName"])

    assert claim(claim="there") == "there"
    assert claim(size="1Gi") == claim(size="2Gi") == "mine-data"
    names = {claim(host_path="/a"), claim(host_path="/b"), claim(host_path="/a", read_only=True)}
    assert len(names) == 3
    assert all(re.fullmatch(r"mine-data-[0-9a-f]{8}", name) for name in names)


def test_a_jobs_queue_is_the_label_that_kueue_looks_for_on_the_pytorchjob_alone() -> None:
    """On pods as well, Kueue would count each of them besides. It sets `suspend` by itself."""
    with_queue, without = rendered(mnist(queue="research")), rendered(mnist())
    assert with_queue["metadata"]["labels"].pop("kueue.x-k8s.io/queue-name") == "research"
    assert with_queue == without
