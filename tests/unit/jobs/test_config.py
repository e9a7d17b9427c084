"""A declaration is a job, or it is told everything that is wrong with it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter, ValidationError

from jobs.config import CATALOG, declare
from jobs.model.job import TrainingJob, declaration
from jobs.model.parts import Elastic
from jobs.model.pytorchjob import Topology
from tests.unit.jobs_declared import jobs

KEY = "slipway:jobs.it"


def problems(name: str, declared: object) -> dict[str, str]:
    """Return what is wrong, by key below the job's own; empty for the job itself."""
    found = declare(name, declared, KEY)
    assert isinstance(found, list), found
    assert len({problem.key for problem in found}) == len(found), found
    return {problem.key.removeprefix(KEY).removeprefix("."): problem.text for problem in found}


def job(name: str, declared: object) -> TrainingJob:
    declared_job = declare(name, declared, KEY)
    assert isinstance(declared_job, TrainingJob), declared_job
    return declared_job


@pytest.mark.parametrize("nothing", [{}, None])
def test_an_entry_of_the_catalogue_is_taken_as_it_is(nothing: object) -> None:
    assert job("mnist-gloo", nothing) == CATALOG["mnist-gloo"]


def test_fields_override_those_of_the_catalogue() -> None:
    changed = job("mnist-gloo", {"epochs": 2, "workers": 1, "learningRate": "0.1", "cpu": 2})
    assert (changed.epochs, changed.workers, changed.learning_rate) == (2, 1, 0.1)
    assert changed.cpu == "2"
    assert changed.module == "mnist"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *[("5m", 300), ("1h30m", 5400), ("90s", 90), ("600", 600), (600, 600), ("90 min", 5400)],
        *[("12 hours", 43200), ("1 day", 86400), ("2d 1h", 176400), ("1 hr 5 mins", 3900)],
        *[("30 seconds", 30), ("1 hour 30 minutes", 5400), ("5 m", 300)],
    ],
)
def test_a_time_limit_is_seconds_or_a_duration(written: object, seconds: int) -> None:
    changed = job("mnist-gloo", {"timeout": written, "maxDuration": written})
    assert (changed.timeout, changed.max_duration) == (seconds, seconds)


@pytest.mark.parametrize("written", ["m", "", " ", "0m", "five", "1.5h", -1, "5 months", "1m1h"])
def test_what_is_no_time_limit_is_refused_with_what_is(written: object) -> None:
    text = problems("mnist-gloo", {"timeout": written})["timeout"]
    assert "a duration such as 90s, 90 min, 1h30m or 12 hours" in text


def test_a_whole_number_in_quotes_is_that_number() -> None:
    """`pulumi config set` without `--path` writes it so."""
    changed = job("mnist-gloo", {"epochs": "2", "workers": "1", "seed": "0"})
    assert (changed.epochs, changed.workers, changed.seed) == (2, 1, 0)


@pytest.mark.parametrize(("written", "origin"), [("a", "a"), (["a", "b"], "a"), ([], "mine")])
def test_what_a_job_was_called_is_one_name_or_a_list(written: object, origin: str) -> None:
    own = {"image": "example.org/mine:1", "command": ["train"]}
    assert job("mine", {**own, "was": written}).origin == origin


@pytest.mark.parametrize("written", [3, {"a": 1}, ["A"], "B"])
def test_what_is_no_name_that_a_job_had_is_refused(written: object) -> None:
    assert all(key.startswith("was") for key in problems("mnist-gloo", {"was": written}))


def test_a_custom_job_has_an_image_and_a_command() -> None:
    mine = job("mine", {"image": "example.org/mine:1", "command": ["python3", "train.py"]})
    assert mine.command == ("python3", "train.py")


def test_all_problems_are_reported_together() -> None:
    found = problems(
        "mnist-gloo",
        {
            "workers": -1,
            "epochs": "three",
            "batchSize": 1.5,
            "learningRate": -1,
            "batchsize": 3,
            "cpu": True,
            "memory": "12",
            "backend": "hccl",
            "restartPolicy": "Sometimes",
            "env": {"RANK": "1", "a b": "c", "TOKEN": {"secret": "hub", "kye": "x"}},
            "master": {"cpu": 0, "memroy": "1Gi"},
            "volumes": {"data": {"mountPath": "data"}, "tmp": {"mountPath": "/a", "size": 5}},
            "tolerations": [{"operator": "exists"}],
            "command": ["true"],
        },
    )
    assert found.keys() == {
        "workers", "epochs", "batchSize", "learningRate", "batchsize", "cpu", "memory",
        "backend", "restartPolicy", "env.RANK", "env.a b", "env.TOKEN.kye", "env.TOKEN.key",
        "master.cpu", "master.memroy", "volumes.data.mountPath", "volumes.tmp",
        "volumes.tmp.size", "tolerations[0].operator", "command",
    }  # fmt: skip
    assert found["workers"] == "-1 is not allowed; it takes a whole number from 0 to 999"
    assert 'did you mean "batchSize"?' in found["batchsize"]
    assert 'did you mean "memory"?' in found["master.memroy"]
    assert 'did you mean "key"?' in found["env.TOKEN.kye"]
    assert found["env.TOKEN.key"].startswith("is missing")
    assert found["backend"] == '"hccl" is not allowed; it takes one of gloo, nccl'
    assert "512Mi" in found["memory"]
    assert "training operator" in found["env.RANK"]
    assert "absolute path" in found["volumes.data.mountPath"]
    assert "Slipway has not taken" in found["volumes.tmp"]
    assert found["tolerations[0].operator"].endswith("it takes one of Equal, Exists")


@pytest.mark.parametrize(
    ("value", "key", "words"),
    [
        ({}, "env.TOKEN.secret", "`config` alone"),
        ({"key": "token"}, "env.TOKEN.secret", "is missing"),
        ({"secret": "hub", "key": "token", "config": "hfToken"}, "env.TOKEN", "neither"),
        ({"config": "slipway:hfToken"}, "env.TOKEN.config", "such as hfToken"),
        ({"confg": "hfToken"}, "env.TOKEN.confg", 'did you mean "config"?'),
    ],
)
def test_a_secret_is_configured_or_a_key(value: dict[str, str], key: str, words: str) -> None:
    assert words in problems("mnist-gloo", {"env": {"TOKEN": value}})[key]


@pytest.mark.parametrize(
    "program",
    [
        {"image": "example.org/mine:1", "command": ["true"]},
        {"build": {"context": "images/trainer"}},
    ],
)
def test_requirements_without_a_script_are_a_problem_too(program: dict[str, Any]) -> None:
    found = problems("mine", {**program, "requirements": "needs.txt", "cpu": "none"})
    assert found.keys() == {"requirements", "cpu"}
    assert found["requirements"].startswith("goes with a `script`")


def test_conflicting_fields_are_reported_beside_wrong_names_and_values() -> None:
    declared = {"image": "example.org/mine:1", "epochs": 2, "script": 5, "cpu": "none"}
    assert problems("No_Name", declared).keys() == {"", "epochs", "script", "cpu"}


def test_consequences_of_a_wrong_value_are_not_reported() -> None:
    assert problems("mine", {"script": 5}).keys() == {"script"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workers", -1),
        ("workers", 1000),
        ("processesPerNode", 0),
        ("ttlSecondsAfterFinished", 5),
        ("minAccuracy", 1.5),
        ("goal", "accuracy=2"),
        ("goal", "val_loss=0.0"),
        ("goal", "perplexity=3"),
        ("outputs", "/results"),
        ("backend", "mpi"),
        ("restartPolicy", "Always"),
        ("elastic", 3),
        ("workers", True),
        ("workers", 2.5),
        ("workers", "three"),
        ("epochs", 0),
        ("timeout", 0),
        ("learningRate", 0),
        ("learningRate", float("inf")),
        ("cpu", "0m"),
        ("cpu", 0),
        ("memory", "0Gi"),
        ("memory", 5),
        ("args", "not a list"),
    ],
)
def test_a_value_out_of_range_or_of_another_type_is_refused(field: str, value: Any) -> None:
    found = problems("mnist-gloo", {field: value})
    assert field in found


@pytest.mark.parametrize(
    ("require", "key"),
    [
        ({"val_loss": {}}, "require.val_loss"),
        ({"val_loss": {"min": 2, "max": 1}}, "require.val_loss.min"),
        ({"val_loss": {"most": 1}}, "require.val_loss.most"),
        ({"val_loss": 1}, "require.val_loss"),
    ],
)
def test_bounds_that_judge_nothing_are_refused(require: dict[str, Any], key: str) -> None:
    assert problems("mnist-gloo", {"require": require}).keys() == {key}


@pytest.mark.parametrize(
    "name", ["Mine", "1st", "my_job", "my.job", "-mine", "mine-", "a" * 41, "", "ä"]
)
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    found = problems(name, {"image": "example.org/mine:1", "command": ["true"]})
    assert "DNS label" in found[""]


def test_a_misspelt_entry_suggests_the_right_one() -> None:
    found = problems("mnist-glo", {"epochs": 2})
    assert found.keys() == {""}
    assert 'did you mean "mnist-gloo"?' in found[""]


@pytest.mark.parametrize("key", ["attempts", "name", "module"])
def test_what_is_not_declared_is_an_unknown_key(key: str) -> None:
    assert "no such key" in problems("mnist-gloo", {key: "x"})[key]


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        ({"script": "a.py", "image": "example.org/mine:1", "command": ["x"]}, {"image"}),
        ({"script": "a.py", "build": {"context": "."}}, {"build"}),
        ({"script": "a", "command": ["torchrun"], "scriptEntry": "a.py"}, {"scriptEntry"}),
        ({"command": ["python3"]}, {"image"}),
        ({"image": "example.org/mine:1", "workingDir": "src"}, {"workingDir"}),
        ({"image": "example.org/mine:1", "keep": ["/tmp/a"]}, {"keep[0]"}),
        ({"build": {"context": "."}, "scriptEntry": "a.py"}, {"scriptEntry"}),
        ({"build": {}}, {"build.context"}),
        ({}, {""}),
    ],
)
def test_a_custom_job_has_exactly_one_program(declared: dict[str, Any], keys: set[str]) -> None:
    assert problems("mine", declared).keys() == keys


@pytest.mark.parametrize(
    ("volume", "key"),
    [
        ({"mountPath": "/mnt"}, "volumes.data"),
        ({"mountPath": "/mnt", "claim": "a", "size": "1Gi"}, "volumes.data"),
        ({"mountPath": "/mnt", "size": "1Gi", "readOnly": True}, "volumes.data.readOnly"),
        ({"mountPath": "/mnt", "claim": "a", "keep": True}, "volumes.data.keep"),
        ({"mountPath": "/mnt", "emptyDir": True, "keep": False}, "volumes.data.keep"),
        ({"mountPath": "/work", "claim": "a"}, "volumes.data.mountPath"),
        ({"mountPath": "/", "claim": "a"}, "volumes.data.mountPath"),
        ({"mountPath": "/mnt", "hostPath": "here"}, "volumes.data.hostPath"),
        ({"mountPath": "/mnt", "emptyDir": False}, "volumes.data.emptyDir"),
        ({"claim": "a"}, "volumes.data.mountPath"),
    ],
)
def test_a_volume_is_of_one_kind_at_its_own_place(volume: dict[str, Any], key: str) -> None:
    assert problems("mnist-gloo", {"volumes": {"data": volume}}).keys() == {key}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/dev", "would hide /dev/shm"),
        ("/opt", "would hide /opt/script"),
        ("/opt/slipway", "would hide /opt/slipway: slipway_trainer"),
        ("/data", "would hide /data: the data sets"),
        ("/tmp", "would hide /tmp: `tmp`"),
        ("/mnt/../work", "no :, . or .."),
    ],
)
def test_a_volume_that_hides_what_the_pod_needs_is_refused(place: str, words: str) -> None:
    volumes = {"data": {"claim": "a", "mountPath": place}}
    found = problems("mnist-gloo", {"volumes": volumes})
    assert found.keys() == {"volumes.data.mountPath"}
    assert words in found["volumes.data.mountPath"]


@pytest.mark.parametrize(
    "place", ["/work/data", "/tmp/cache", "/data/cifar10", "/opt/own", "/home"]
)
def test_a_volume_that_hides_nothing_is_taken(place: str) -> None:
    volumes = {"data": {"claim": "a", "mountPath": place}}
    assert job("mnist-gloo", {"volumes": volumes}).volumes["data"].mount_path == place


def test_a_custom_image_may_mount_data_anywhere() -> None:
    volumes = {"data": {"claim": "a", "mountPath": "/data"}}
    own = {"image": "example.org/mine:1", "command": ["train"], "volumes": volumes}
    assert job("mine", own).volumes["data"].mount_path == "/data"


def test_two_volumes_are_not_in_one_place() -> None:
    volumes = {name: {"claim": name, "mountPath": "/mnt"} for name in ("a", "b")}
    keys = {"volumes.a.mountPath", "volumes.b.mountPath"}
    assert problems("mnist-gloo", {"volumes": volumes}).keys() == keys


@pytest.mark.parametrize(
    ("declared", "key"),
    [
        ({"elastic": {"minReplicas": 4}}, "elastic.minReplicas"),
        ({"elastic": {"maxReplicas": 2}}, "elastic.maxReplicas"),
        ({"workers": 0}, "elastic.minReplicas"),
        ({"elastic": None}, "elastic"),
        ({"master": {"cpu": 1}}, "master"),
    ],
)
def test_an_elastic_jobs_workers_are_between_its_bounds(declared: dict[str, Any], key: str) -> None:
    assert problems("mnist-elastic", declared).keys() == {key}


@pytest.mark.parametrize(
    ("declared", "key", "words"),
    [
        ({"outputs": "abfs://user:pw@there/x"}, "outputs", "has a password in it"),
        (
            {"env": {"HTTPS_PROXY": "http://me:pw@proxy:3128"}},
            "env.HTTPS_PROXY",
            "{config: proxy}",
        ),
        ({"env": {"http_proxy": "me:pw@proxy:3128"}}, "env.http_proxy", "has a password in it"),
        ({"outputs": "https://there/x?sv=1&sig=a%2Fb"}, "outputs", "has a signature in it"),
        ({"outputs": "https://there/x?sig=ab"}, "outputs", "from a Secret"),
        ({"outputs": "abfs://[there/x"}, "outputs", "a URL that fsspec knows"),
        ({"minGpuUtilization": 20}, "minGpuUtilization", "set `gpus`, or `backend: nccl`"),
        ({"onFailure": {}}, "onFailure.hold", "is missing"),
        ({"onFailure": {"hold": 60}, "elastic": {}}, "onFailure", "goes with no `elastic`"),
        ({"debug": 4}, "debug", "4 is no rank of the job"),
        ({"debug": 0, "elastic": {}, "backend": "gloo"}, "debug", "goes with no `elastic`"),
        ({"minGpuUtilization": 20, "gpus": 0}, "minGpuUtilization", "goes with GPUs"),
        ({"minGpuUtilization": 0, "gpus": 1}, "minGpuUtilization", "from 1 to 100"),
        ({"minGpuUtilization": 101, "gpus": 1}, "minGpuUtilization", "from 1 to 100"),
    ],
)
def test_what_could_not_work_or_would_tell_a_secret_is_refused(
    declared: dict[str, Any], key: str, words: str
) -> None:
    found = problems("mnist-gloo", declared)
    assert found.keys() == {key}
    assert words in found[key]


@pytest.mark.parametrize(
    "declared",
    [
        {"timeout": 60},
        {"debug": 3, "onFailure": {"hold": "30m"}},
        {"minGpuUtilization": 20, "backend": "nccl"},
        {"minGpuUtilization": 20, "gpus": 1},
        {"minGpuUtilization": "20", "master": {"gpus": 1}},
        {"outputs": "abfs://container@account.dfs.core.example/folder"},
    ],
)
def test_what_does_go_together_is_taken(declared: dict[str, Any]) -> None:
    job("mnist-gloo", declared)


@pytest.mark.parametrize(
    ("command", "field", "words"),
    [
        (["python3", "train.py"], {"onFailure": {"hold": 60}}, "that runs slipway_trainer.launch"),
        (["python3", "train.py"], {"debug": 1}, "that runs slipway_trainer.launch"),
        (
            ["python3", "-m", "slipway_trainer.launch", "--command", "--", "accelerate"],
            {"debug": 1},
            "goes with a Python file",
        ),
    ],
)
def test_only_what_the_launcher_starts_is_held_and_only_python_debugged(
    command: list[str], field: dict[str, Any], words: str
) -> None:
    image = {"image": "example.org/mine:1"}
    found = problems("mine", {**image, **field, "command": command})
    assert found.keys() == field.keys()
    assert words in found[next(iter(field))]
    for launched in ([], ["python3", "-m", "slipway_trainer.launch", "--", "train.py"]):
        job("mine", {**image, **field, **({"command": launched} if launched else {})})


def test_allowed_values_are_described_in_sentences() -> None:
    own = {"image": "example.org/mine:1", "command": [], "env": {"A": [1]}, "build": {"context": 1}}
    found = problems("mine", own)
    assert found["command"] == "[] is not allowed; it takes a list of at least 1 item"
    assert 'such as "1.10", or a map of secret, key' in found["env.A"]
    assert found["build.context"].endswith("a path, relative to the stack's file, or absolute")


@pytest.mark.parametrize("image", ["a/b@", "a/b@sha256:12", "a/b:", "a b", "a/b:1@"])
def test_an_image_is_a_whole_reference(image: str) -> None:
    assert problems("mine", {"image": image, "command": ["x"]}).keys() == {"image"}


@pytest.mark.parametrize("tail", ["", ":1.4", f"@sha256:{'0' * 64}", f":1@sha256:{'a' * 64}"])
def test_an_image_is_named_by_a_version_or_a_digest(tail: str) -> None:
    reference = f"registry.example:5000/team/train{tail}"
    assert job("mine", {"image": reference, "command": ["x"]}).image == reference


def test_nccl_has_a_gpu_for_each_process() -> None:
    declared = {"processesPerNode": 4, "gpus": 2, "master": {"gpus": 3}}
    assert problems("mnist-nccl", declared).keys() == {"gpus", "master.gpus"}


def test_maps_of_the_catalogue_are_overridden_key_by_key() -> None:
    changed = job("mnist-elastic", {"elastic": {"maxRestarts": 3}})
    assert changed.elastic == Elastic(min_replicas=2, max_replicas=3, max_restarts=3)


def test_what_the_command_line_writes_is_read() -> None:
    # `pulumi config set --path` writes whole numbers and true as such, all else as text.
    changed = job(
        "mine",
        {
            "script": "train.py",
            "args": ["--epochs", 3, "--lr", "0.1", True, 0.5],
            "env": {"LEVEL": 1, "DEBUG": True, "VERSION": "1.10"},
            "cpu": 2,
            "minAccuracy": "0.9",
            "labels": {"example.org/cost": 7},
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
        },
    )
    assert changed.args == ("--epochs", "3", "--lr", "0.1", "true", "0.5")
    assert changed.env == {"LEVEL": "1", "DEBUG": "true", "VERSION": "1.10"}
    assert (changed.cpu, changed.min_accuracy) == ("2", 0.9)
    assert changed.labels == {"example.org/cost": "7"}


def test_a_fraction_as_a_variable_is_refused_since_its_digits_may_have_been_lost() -> None:
    assert "in quotes" in problems("mnist-gloo", {"env": {"VERSION": 1.1}})["env.VERSION"]


@pytest.mark.parametrize("name", ["LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "SLIPWAY_JOB"])
def test_a_variable_that_slipway_sets_is_refused(name: str) -> None:
    assert "sets itself" in problems("mnist-gloo", {"env": {name: "1"}})[f"env.{name}"]


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "two", "", {"secret": "a", "key": "b"}])
def test_threads_are_a_whole_number(value: object) -> None:
    (text,) = problems("mnist-gloo", {"env": {"OMP_NUM_THREADS": value}}).values()
    assert "a whole number of at least 1" in text


def test_home_and_threads_may_be_others() -> None:
    own = {"HOME": "/work", "OMP_NUM_THREADS": "3"}
    assert job("mnist-gloo", {"env": {"HOME": "/work", "OMP_NUM_THREADS": 3}}).env == own


@pytest.mark.parametrize(
    "name", ["slipway.dev/run", "app.kubernetes.io/managed-by", "a b", "a/b/c"]
)
def test_invalid_and_reserved_labels_are_refused(name: str) -> None:
    (key,) = problems("mnist-gloo", {"labels": {name: "x"}})
    assert key.startswith("labels")


def test_seed_scripts_need_one_entry() -> None:
    declared = {"script": "train.py", "workers": 1, "args": ["--data-dir", "/data/cifar10"]}
    assert Topology.of_declared(declaration(job("mine", declared))).world_size == 2


def test_conflicting_fields_raise_an_error_in_python() -> None:
    with pytest.raises(ValidationError, match="exactly one of script, build and image"):
        TrainingJob(name="mine", script="a.py", image="example.org/mine:1", command=("x",))


def test_a_command_needs_an_image_to_run_in() -> None:
    assert problems("mine", {"command": ["true"]}).keys() == {"image"}


def test_a_field_of_the_catalogues_programs_is_refused_in_a_custom_job() -> None:
    declared = {"image": "example.org/mine:1", "command": ["true"], "epochs": 2}
    assert problems("mine", declared).keys() == {"epochs"}


def test_an_entry_of_the_catalogue_keeps_its_own_program() -> None:
    assert problems("mnist-gloo", {"command": ["true"]}).keys() == {"command"}


@pytest.mark.parametrize("declared", [[], "text", 3])
def test_a_declaration_is_a_map(declared: object) -> None:
    assert problems("mnist-gloo", declared).keys() == {""}


@settings(max_examples=10)
@given(jobs.filter(lambda each: each.module is None))
def test_whatever_a_python_user_says_a_stacks_file_can_say(own: TrainingJob) -> None:
    said = TypeAdapter(TrainingJob).dump_python(own, mode="json", by_alias=True, exclude_none=True)
    del said["name"]
    assert job(own.name, json.loads(json.dumps(said))) == own


@pytest.mark.parametrize(
    ("inputs", "key", "words"),
    [
        ({"Model": {"job": "a", "artifact": "x"}}, "inputs.Model", "a letter first"),
        ({"my-net": {"job": "a", "artifact": "x"}}, "inputs.my-net", "0-9 and _"),
        ({"net": {"job": "a", "artifact": "/x"}}, "inputs.net.artifact", "SLIPWAY_OUTPUT_DIR"),
        ({"net": {"job": "a", "artifact": "x/../y"}}, "inputs.net.artifact", "such as model.pt"),
        ({"net": {"job": "a", "artifact": ""}}, "inputs.net.artifact", "such as model.pt"),
        ({"net": {"job": "A", "artifact": "x"}}, "inputs.net.job", "a DNS label"),
        ({"net": {"job": "a"}}, "inputs.net.artifact", "is missing"),
        ({"net": {"job": "a", "artefact": "x"}}, "inputs.net.artefact", 'did you mean "artifact"?'),
        ({"net": "a"}, "inputs.net", "a map of job, artifact"),
    ],
)
def test_an_input_has_a_name_and_a_job(inputs: dict[str, object], key: str, words: str) -> None:
    found = problems("mnist-gloo", {"inputs": inputs})
    assert words in found[key], found


def test_what_a_job_depends_on_is_a_list_of_names() -> None:
    assert problems("mnist-gloo", {"dependsOn": "a"}).keys() == {"dependsOn"}
    assert problems("mnist-gloo", {"dependsOn": ["a", "B"]}).keys() == {"dependsOn[1]"}


@pytest.mark.parametrize("place", ["/work/inputs", "/opt/inputs"])
def test_no_volume_hides_the_jobs_inputs(place: str) -> None:
    declared = {"volumes": {"mine": {"claim": "a", "mountPath": place}}}
    assert isinstance(declare("mnist-gloo", declared, KEY), TrainingJob)
    taken = {"inputs": {"net": {"job": "a", "artifact": "x"}}}
    assert problems("mnist-gloo", {**declared, **taken}).keys() == {"volumes.mine.mountPath"}


def test_a_pattern_that_can_find_no_number_is_refused_with_the_reason() -> None:
    """All of them at once, each by its key."""
    metrics = {
        "open": "accuracy=([0-9.]+",
        "groupless": "loss=[0-9.]+",
        "reference": r"(a)\2",
        "odd": 5,
        "deep": "(" * 3000 + ")" * 3000,
        "large": "a{99999999999}(b)",
        "a b": "(a)",
    }
    found = problems("mine", {"script": "train.py", "metrics": {**metrics, "right": "(?P<v>a)"}})
    assert found.keys() == {f"metrics.{name}" for name in metrics}
    asked = "a regular expression with the number in a group, such as 'accuracy=([0-9.]+)'"
    assert found["metrics.open"] == (
        f'"accuracy=([0-9.]+" is not allowed; it takes {asked}; this one is invalid: '
        "missing ), unterminated subpattern at position 9"
    )
    assert found["metrics.groupless"].endswith(f"{asked}; this one has no group")
    assert found["metrics.odd"] == f"5 is not allowed; it takes {asked}"
    assert "a name such as val_loss" in found["metrics.a b"]
