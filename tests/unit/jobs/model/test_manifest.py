"""A job is submitted as a PyTorchJob that the operator and Pod Security admit."""

import base64
import json
import re
from dataclasses import replace
from typing import Any, cast

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from core import toolchain
from infra.provider.engine import plain_map, wrap_map
from jobs.config import CATALOG
from jobs.model import program
from jobs.model.job import TrainingJob, declaration
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.parts import Build, Checkpoint, JobInput, Limits, Master, SecretKey, Volume
from jobs.model.places import VOLUME_URL
from jobs.model.pytorchjob import Topology
from jobs.model.submission import Submission
from jobs.model.volumes import claims, host_volumes
from jobs.plan import shares
from tests.unit.jobs_declared import jobs, pods, rendered, submitted, variables

LAUNCH = ["python3", "-m", "slipway_trainer.launch"]
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pod(job: TrainingJob, role: str = "Master") -> Any:
    return pods(rendered(job))[role]


def container(job: TrainingJob, role: str = "Master") -> Any:
    (only,) = pod(job, role)["containers"]
    return only


def environment(job: TrainingJob, role: str = "Master") -> dict[str, Any]:
    return variables(pod(job, role))


def volume(job: TrainingJob, name: str) -> Any:
    """Return the source of a volume of the Master."""
    (found,) = (each for each in pod(job)["volumes"] if each["name"] == name)
    return next(value for key, value in found.items() if key != "name")


def options(job: TrainingJob) -> dict[str, str]:
    args = container(job)["args"]
    return dict(zip(args[::2], args[1::2], strict=True))


def mnist(**fields: Any) -> TrainingJob:
    return TrainingJob(name="mine", module="mnist", **fields)


def own(*command: str, **fields: Any) -> TrainingJob:
    return TrainingJob(name="mine", image="example.org/mine:1", command=command or None, **fields)


def backwards(value: Any) -> Any:
    """Return a value with the keys of all its maps in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [*map(backwards, value)] if isinstance(value, list | tuple) else value


@few
@given(jobs)
@example(own(checkpoint=Checkpoint(), inputs=dict.fromkeys("nm", JobInput(job="a", artifact="b"))))
def test_the_inputs_of_a_run_submit_the_same_by_way_of_the_engine(job: TrainingJob) -> None:
    """The engine sends the keys of a map in an order that differs between processes."""
    artifacts, lent = {"url": "file:///r/x", "sha256": "1"}, {"claim": "team", "mountPath": "/r"}
    of_inputs = {"artifacts": artifacts, "input_volumes": lent}
    found = {key: dict.fromkeys(job.inputs, each) for key, each in of_inputs.items()}
    tracking = {"kind": "wandb", "experiment": "dev/mine"}
    before = submitted(job, fetch_image="f:1", place=VOLUME_URL, tracking=tracking, **found)
    orders = (before.inputs(), backwards(before.inputs()))
    after, other = (Submission.from_inputs(plain_map(wrap_map(each))) for each in orders)
    document = manifest(after)
    assert json.loads(json.dumps(document)) == document, "plain JSON"
    assert json.dumps(manifest(other)) == json.dumps(document)
    assert after.inputs() == before.inputs()
    assert other.digest() == after.digest() == before.digest()
    assert checkpoint_key(other) == checkpoint_key(after)


@pytest.fixture(scope="session")
def validator() -> jsonschema.Draft202012Validator:
    """The schema of a PyTorchJob in the operator's own CRD."""
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
def test_a_run_counts_the_processes_that_the_job_asks_for(job: TrainingJob) -> None:
    wanted = Topology(len(shares(job)), job.processes_per_node, job.elastic is not None)
    assert Topology.of_object(rendered(job)) == Topology.of_declared(declaration(job)) == wanted


@few
@given(jobs)
def test_pod_security_restricted_admits_the_pods_which_may_write_to_their_volumes(
    job: TrainingJob,
) -> None:
    # https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    kinds = {"configMap", "emptyDir", "persistentVolumeClaim"}
    for found in pods(rendered(job)).values():
        assert found["automountServiceAccountToken"] is False
        assert found["securityContext"]["runAsNonRoot"] is True
        assert found["securityContext"]["runAsUser"] > 0
        assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all(len(each.keys() & kinds) == 1 and len(each) == 2 for each in found["volumes"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & found.keys()
        for each in [*found["containers"], *found.get("initContainers", [])]:
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "hostPort" not in str(each)
        (program,) = found["containers"]
        assert program["securityContext"]["readOnlyRootFilesystem"] is True
        places = [each["mountPath"] for each in program["volumeMounts"]]
        assert {"/tmp", "/dev/shm", "/work"} <= set(places)
        assert len(set(places)) == len(places)
        volumes = [each["name"] for each in found["volumes"]]
        assert sorted(volumes) == sorted(each["name"] for each in program["volumeMounts"])
        assert len(set(volumes)) == len(volumes)


@pytest.mark.parametrize(
    ("program", "place", "launched_in"),
    [
        ({"module": "mnist"}, "/work", None),
        ({"script": "train.py", "working_dir": "src"}, "/work", "src"),  # the launcher goes there
        ({"image": "example.org/mine:1"}, None, None),
        ({"build": Build(context="x"), "working_dir": "/work"}, "/work", None),
    ],
)
def test_an_image_starts_in_its_own_directory(
    program: dict[str, Any], place: str | None, launched_in: str | None
) -> None:
    job = TrainingJob(name="mine", **program)
    assert container(job).get("workingDir") == place
    assert environment(job).get("SLIPWAY_WORKING_DIR") == launched_in


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

        assert container(job, role)["name"] == "pytorch"
        resources, gpu = container(job, role)["resources"], "nvidia.com/gpu"
        assert resources["limits"]["memory"]
        assert resources["limits"].get(gpu) == resources["requests"].get(gpu)


def test_the_launcher_passes_the_jobs_fields_to_a_program_of_the_catalogue() -> None:
    job = mnist(workers=0, processes_per_node=2, epochs=3, batch_size=128, learning_rate=0.5)
    assert pods(rendered(job)).keys() == {"Master"}
    command = [*LAUNCH, "--processes", "2", "--", "-m", "slipway_trainer.mnist"]
    assert container(job)["command"] == command
    given = {"--epochs": "3", "--batch-size": "128", "--lr": "0.5", "--backend": "gloo"}
    assert options(job).items() >= given.items()
    assert "--goal" not in options(job)
    for goal in ("accuracy=0.98", "top5_accuracy=1.0", "test_loss=12"):
        assert options(mnist(goal=goal))["--goal"] == goal
    given = {"--data-dir": "/data/cifar10", "--output-dir": "/work/outputs"}
    cifar = TrainingJob(name="mine", module="cifar", learning_rate=0.5)
    assert options(cifar).items() >= {**given, "--learning-rate": "0.5"}.items()
    assert container(mnist(args=("--epochs", "9")))["args"][-2:] == ["--epochs", "9"]


def test_a_program_finds_a_name_for_its_user_also_in_another_image() -> None:
    """The trainer's has one in its passwd; and checkpoints go on with the key that they had."""
    job = own("train")
    assert environment(job)["USER"] == "slipway"
    assert environment(replace(job, env={"USER": "me"}))["USER"] == "me"
    assert "USER" not in environment(mnist())
    assert checkpoint_key(Submission(job=job, image=job.image)) == "16367857ee77eb82"


def test_a_single_process_is_local_rank_0_and_torchrun_numbers_several() -> None:
    """By `TORCHELASTIC_RUN_ID` frameworks find that their ranks are set."""
    alone, several = environment(mnist()), environment(mnist(processes_per_node=2))
    assert (alone["LOCAL_RANK"], alone["LOCAL_WORLD_SIZE"]) == ("0", "1")
    assert "TORCHELASTIC_RUN_ID" in alone
    assert not {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"} & several.keys()
    assert "TORCHELASTIC_RUN_ID" not in environment(CATALOG["mnist-elastic"], "Worker")
    reference = {"fieldRef": {"fieldPath": "metadata.labels['slipway.dev/run']"}}
    assert alone["SLIPWAY_RUN_ID"] == several["SLIPWAY_RUN_ID"] == reference


def test_a_stop_leaves_time_to_copy_outputs() -> None:
    outputs, plain = (pod(mnist(outputs=each)) for each in ("abfs://container/folder", None))
    period = "terminationGracePeriodSeconds"
    assert outputs[period] > plain[period]


def test_a_value_from_a_secret_is_never_in_the_manifest() -> None:
    env = {"KEY": SecretKey(secret="hub", key="token"), "TOKEN": SecretKey(config="hfToken")}
    job = mnist(env=env)
    assert environment(job)["TOKEN"] == {"secretKeyRef": {"name": "mine-env", "key": "TOKEN"}}
    (made,) = program.secrets(job, "jobs", {"hfToken": "ä b", "other": "x"})
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("mine-env", "jobs")
    assert made["data"] == {"TOKEN": base64.b64encode("ä b".encode()).decode()}
    assert program.secrets(mnist(env={"KEY": env["KEY"]}), "jobs", {"hfToken": "x"}) == []


def test_nccl_asks_for_a_gpu_for_each_process_and_gloo_for_none() -> None:
    several, one = (mnist(backend="nccl", processes_per_node=count) for count in (4, 1))
    for job, gpus in ((several, "4"), (one, "1"), (mnist(gpus=2), "2"), (mnist(), None)):
        assert container(job)["resources"]["limits"].get("nvidia.com/gpu") == gpus


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"memory": "1Gi"}, "512Mi"),
        ({"memory": "1Gi", "limits": Limits(memory="4Gi")}, "2048Mi"),
        ({"memory": "1k"}, "1Mi"),
    ],
)
def test_shared_memory_defaults_to_half_of_the_memory(fields: Any, size: str) -> None:
    assert volume(mnist(**fields), "shm") == {"medium": "Memory", "sizeLimit": size}


@pytest.mark.parametrize(
    ("cpu", "processes", "threads"), [("400m", 1, "1"), ("3.5", 1, "3"), ("4", 2, "2")]
)
def test_a_rank_has_as_many_threads_as_whole_cores(cpu: str, processes: int, threads: str) -> None:
    for job in (
        mnist(cpu=cpu, processes_per_node=processes),
        mnist(cpu="9", processes_per_node=processes, master=Master(cpu=cpu)),
    ):
        assert environment(job)["OMP_NUM_THREADS"] == options(job)["--threads"] == threads
        assert environment(replace(job, env={"OMP_NUM_THREADS": "7"}))["OMP_NUM_THREADS"] == "7"


def test_a_size_is_a_claim_that_is_kept_unless_its_volume_says_otherwise() -> None:
    others = {"images": Volume(claim="there", mount_path="/a")}
    others["empty"] = Volume(empty_dir="1Gi", mount_path="/b")
    sizes = {"results": Volume(size="5Gi", mount_path="/c")}
    sizes["scratch"] = Volume(size="5Gi", mount_path="/d", keep=False)
    (claim, keep), (_, is_scratch_kept) = claims(mnist(volumes=others | sizes), "slipway-jobs")
    assert (keep, is_scratch_kept) == (True, False)
    assert (claim["kind"], claim["metadata"]["name"]) == ("PersistentVolumeClaim", "mine-results")
    size = {"requests": {"storage": "5Gi"}}
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": size}


def test_a_host_path_is_a_volume_and_the_only_claim_that_may_have_it() -> None:
    def host(path: str = "/srv/data", **fields: Any) -> TrainingJob:
        return mnist(volumes={"data": Volume(host_path=path, mount_path="/mnt/data", **fields)})

    made, claim = host_volumes(host(read_only=True), "slipway-jobs")
    assert made["kind"] == "PersistentVolume"
    assert "namespace" not in made["metadata"]
    assert made["spec"]["hostPath"] == {"path": "/srv/data", "type": "Directory"}
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    reference, name = made["spec"]["claimRef"], claim["metadata"]["name"]
    assert (reference["namespace"], reference["name"]) == ("slipway-jobs", name)
    assert claim["spec"]["volumeName"] == made["metadata"]["name"] == f"slipway-jobs-{name}"
    for job, mode in ((host(read_only=True), "ReadOnlyMany"), (host(), "ReadWriteOnce")):
        for spec in (each["spec"] for each in host_volumes(job, "slipway-jobs")):
            assert (spec["storageClassName"], spec["accessModes"]) == ("", [mode])
    others = [host(read_only=True), host(), host("/srv/other")]
    names = [volume(each, "data")["claimName"] for each in others]
    assert names[0] == name
    assert len(set(names)) == 3, "each path has its own"


REFERRED = {
    "RANK": "3", "MASTER_ADDR": "mine-master-0", "HOME": "/tmp", "SLIPWAY_RUN_ID": "mine-1",
    "SLIPWAY_DATA_DIR": "/opt/data/1", "PET_NNODES": "2", "OWN": "a$$b", "HOSTNAME": "unused",
}  # fmt: skip
"""Variables of a pod; Slipway does not promise the last one."""
PIECES = (*"$(){}A a🚀\n", "$(", "$$", "$(HOSTNAME)", "$(OWN", "RANK)")
WORDS = st.lists(st.sampled_from(PIECES)).map("".join)


def arrived(text: str, variables: dict[str, str]) -> str:
    """Expand a word as Kubernetes does.

    https://github.com/kubernetes/kubernetes/blob/v1.34.4/third_party/forked/golang/expansion/expand.go
    """

    def meant(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", meant, text)


def told(word: str) -> tuple[str, str, str]:
    """Return a word as it arrives in a command, an argument and a variable."""
    job = own(word, args=(word,), env={"OWN": word})
    before = {name: REFERRED[name] for name in ("SLIPWAY_RUN_ID", "HOSTNAME")}
    command, argument = (arrived(container(job)[each][0], REFERRED) for each in ("command", "args"))
    return command, argument, arrived(environment(job)["OWN"], before)


@given(WORDS)
@example("pa$$word")
@example("$$(HOME)")
@example("$(HOSTNAME)")
def test_a_word_without_a_reference_arrives_as_it_stands(word: str) -> None:
    assume(re.search(r"(?<!\$)\$\((RANK|OWN)\)", word) is None)
    assert told(word) == (word, word, word)


@pytest.mark.parametrize("name", [name for name in REFERRED if name != "HOSTNAME"])
def test_arguments_may_refer_to_the_variables_that_the_docs_list(name: str) -> None:
    command, argument, variable = told(f"--a=$({name})$$")
    assert command == argument == f"--a={REFERRED[name]}$$"
    is_first = name == "SLIPWAY_RUN_ID"
    assert variable == (f"--a={REFERRED[name]}$$" if is_first else f"--a=$({name})$$")
