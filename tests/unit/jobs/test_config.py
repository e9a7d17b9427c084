"""A declaration is a job, or all of its problems; a stack's are read before anything is made."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter, ValidationError

from clusters.nodes import Capacity
from jobs import config
from jobs.config import CATALOG, JobsConfig, declare
from jobs.model.job import TrainingJob
from jobs.model.parts import Elastic
from jobs.rules.rule import Surroundings
from tests.unit.jobs_declared import jobs

_DRILL = {"rank": 1, "step": 100, "within": "60s"}
_RETRIED = {"drill": _DRILL, "retries": 1, "retryOn": ["ownFailure"]}
_EXITING = {"drill": _DRILL, "restartPolicy": "ExitCode"}

KEY = "slipway:jobs.it"
SMALL = Surroundings(0, Capacity(Decimal(2), 6 * 2**30, 0, 1))
LARGE = Surroundings(8, Capacity(Decimal(64), 2**40, 8, 4))


def problems(name: str, declared: object) -> dict[str, str]:
    """Return what is wrong, by key below the job's own; empty for the job itself."""
    found = declare(name, declared, KEY)
    assert isinstance(found, list), found
    assert len({problem.key for problem in found}) == len(found), found
    return {problem.key.removeprefix(KEY).removeprefix("."): problem.text for problem in found}


def job(name: str, declared: object) -> TrainingJob:
    found = declare(name, declared, KEY)
    assert isinstance(found, TrainingJob), found
    return found


def test_fields_override_those_of_the_catalogue_and_maps_key_by_key() -> None:
    """In quotes, as `pulumi config set` without `--path` writes them, numbers are the same."""
    assert job("mnist-gloo", None) == job("mnist-gloo", {}) == CATALOG["mnist-gloo"]
    changed = job("mnist-gloo", {"epochs": 2, "workers": "1", "learningRate": "0.1", "cpu": 2})
    assert (changed.epochs, changed.workers, changed.learning_rate) == (2, 1, 0.1)
    assert (changed.cpu, changed.module) == ("2", "mnist")
    elastic = job("mnist-elastic", {"elastic": {"maxRestarts": 3}}).elastic
    assert elastic == Elastic(min_replicas=2, max_replicas=3, max_restarts=3)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(600, 600), ("600", 600), ("90 min", 5400), ("2d 1h", 176400), ("1 hour 30 minutes", 5400)],
)
def test_a_time_limit_is_seconds_or_a_duration(written: object, seconds: int) -> None:
    changed = job("mnist-gloo", {"timeout": written, "maxDuration": written})
    assert (changed.timeout, changed.max_duration) == (seconds, seconds)


def volume(**declared: Any) -> dict[str, Any]:
    return {"volumes": {"data": declared}}


def net(name: str = "net", **declared: Any) -> dict[str, Any]:
    return {"inputs": {name: declared}}


def data(**declared: Any) -> dict[str, Any]:
    images = {"claim": "team", "mountPath": "/mnt/images", "readOnly": True}
    return {"data": declared, "volumes": {"images": images}}


def token(**declared: str) -> dict[str, Any]:
    return {"env": {"TOKEN": declared}}


OWN: dict[str, Any] = {"image": "example.org/mine:1", "command": ["true"]}
IMAGE = {"image": "example.org/mine:1"}
WHOLE = "is not allowed; it must be a whole number from 0 to 999"
DURATION = "a duration such as 90s, 90 min, 1h30m or 12 hours"
LAUNCH = ["python3", "-m", "slipway_trainer.launch"]
NOT_LAUNCHED = {**IMAGE, "command": ["python3", "train.py"]}
ACCELERATE = {**IMAGE, "command": [*LAUNCH, "--command", "--", "accelerate"]}
NUMBER = "a regular expression with the number in a group, such as 'accuracy=([0-9.]+)'"
PATTERNS: dict[Any, str] = {
    "accuracy=([0-9.]+": f"{NUMBER}; this one is invalid: missing ), unterminated subpattern at",
    "loss=[0-9.]+": f"{NUMBER}; this one has no group",
    5: f"5 is not allowed; it must be {NUMBER}",
    **dict.fromkeys((r"(a)\2", "(" * 3000 + ")" * 3000, "a{99999999999}(b)"), "this one is"),
}
INPUTS = net(job="a", artifact="x")
HIDES = {
    "/dev": "would hide /dev/shm",
    "/opt": "would hide /opt/script",
    "/opt/slipway": "would hide /opt/slipway: slipway_trainer",
    "/data": "would hide /data: the data sets",
    "/tmp": "would hide /tmp: the volume `tmp`",
    "/mnt/../work": "without a colon, `.` or `..` elements",
}
SHA = "a" * 64
FETCHED = {"data": {"url": "https://there/x", "sha256": SHA}}
# Declarations that break a rule, with the key and words of the problem, by the rule.
REFUSED: dict[str, list[tuple[Any, str, str]]] = {
    "a time limit is seconds or a duration": [
        ({"timeout": written}, "timeout", DURATION)
        for written in ("", "0m", "five", "1.5h", -1, "1m1h")
    ],
    "a secret is one of the configuration or a key of one that is there": [
        (token(key="token"), "env.TOKEN.secret", "is missing"),
        (token(secret="hub", key="t", config="a"), "env.TOKEN", "can't be used with"),
        (token(config="slipway:badKey!"), "env.TOKEN.config", "is not allowed"),
    ],
    "a value is in its range": [
        *(({"timeout": 0}, "timeout", ""), ({"cpu": "0m"}, "cpu", "")),
        *(({"memory": "0Gi"}, "memory", ""), ({"goal": "val_loss=0.0"}, "goal", "")),
        *(({"learningRate": value}, "learningRate", "") for value in (0, float("inf"))),
        ({"goal": "perplexity=3"}, "goal", ""),
    ],
    "workers are a whole number": [
        ({"workers": value}, "workers", f"{json.dumps(value)} {WHOLE}")
        for value in (1000, 2.5, "two", True)
    ],
    "bounds judge something": [
        ({"require": {"loss": {}}}, "require.loss", "requires `min`, `max` or both"),
        ({"require": {"loss": {"min": 2, "max": 1}}}, "require.loss.min", "2 is more than `max`"),
    ],
    "a volume hides nothing that the pod needs": [
        *((volume(claim="a", mountPath=at), "volumes.data.mountPath", HIDES[at]) for at in HIDES),
        (INPUTS | volume(claim="a", mountPath="/opt/inputs"), "volumes.data.mountPath", "volumes"),
        (
            FETCHED | volume(claim="a", mountPath="/opt/data"),
            "volumes.data.mountPath",
            "job's data",
        ),
        (
            {"volumes": {"slipway-data": {"claim": "a", "mountPath": "/mnt/x"}}},
            "volumes.slipway-data",
            "Slipway does not use itself",
        ),
        (INPUTS | volume(claim="a", mountPath="/work/inputs"), "volumes.data.mountPath", "inputs"),
    ],
    "a fraction is in quotes, since its digits may have been lost": [
        ({"env": {"VERSION": 1.1}}, "env.VERSION", "in quotes"),
        ({"env": {"A": [1]}}, "env.A", 'such as "1.10", or a map with the keys secret, key'),
    ],
    "a pattern can find a number": [
        *(({"metrics": {"it": each}}, "metrics.it", PATTERNS[each]) for each in PATTERNS),
        ({"metrics": {"a b": "(a)"}}, "metrics.a b", "a name such as val_loss"),
    ],
    "an earlier name is a name": [({"was": "B"}, "was[0]", ""), ({"was": ["A"]}, "was[0]", "")],
    "a variable is none that Slipway sets": [
        ({"env": {name: "1"}}, f"env.{name}", "neither the training operator nor Slipway sets")
        for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "SLIPWAY_JOB")
    ],
    "threads are a whole number": [
        ({"env": {"OMP_NUM_THREADS": value}}, "env.OMP_NUM_THREADS", "whole number of at least 1")
        for value in ("0", "1.5", "", {"secret": "a", "key": "b"})
    ],
    "a checkpoint's interval is of steps or time": [
        ({"checkpoint": {"every": "often"}}, "checkpoint.every", "500 steps, or a duration such")
    ],
    "what a retry is for goes with retries": [
        ({"retryOn": ["ownFailure"]}, "retryOn", "requires `retries`"),
        ({"retryOn": ["bad"], "retries": 1}, "retryOn[0]", "one of lostNode, ownFailure"),
    ],
    "a declaration is a map": [([], "", "use a map"), ("text", "", "use a map")],
    "an input has a name and says whose file it is": [
        (net("my-net", job="a", artifact="x"), "inputs.my-net", "starting with a letter"),
        (net(job="a", artifact="/x"), "inputs.net.artifact", "SLIPWAY_OUTPUT_DIR"),
        (net(job="a", artifact="x/../y"), "inputs.net.artifact", "such as model.pt"),
        (net(job="A", artifact="x"), "inputs.net.job", "a DNS label"),
        (net(job="a"), "inputs.net.artifact", "is missing"),
        ({"inputs": {"net": "a"}}, "inputs.net", "a map with the keys job, artifact"),
    ],
    "data are fetched with their sum or are in a volume": [
        (data(), "data", "requires a `url` and `sha256`, or a `volume`"),
        (data(url="https://there/x"), "data.sha256", "is missing"),
        (data(url="https://there/x", sha256="12"), "data.sha256", '"12" is not allowed'),
        (data(volume="images", sha256=SHA), "data.sha256", "requires a `url`"),
        (data(volume="imges"), "data.volume", 'did you mean "images"?'),
        (data(url="https://there/x", sha256=SHA, volume="images"), "data.volume", "is read-only"),
    ],
    "a secret is not in a URL": [
        (data(url="https://me:pw@there/x", sha256=SHA), "data.url", "contains a password"),
        ({"checkpoint": {"url": "s3://me:pw@bucket/mine"}}, "checkpoint.url", "from a Secret"),
        ({"outputs": "abfs://user:pw@there/x"}, "outputs", "contains a password"),
        ({"env": {"HTTPS_PROXY": "http://me:pw@proxy:3128"}}, "env.HTTPS_PROXY", "{config: proxy}"),
        ({"env": {"http_proxy": "me:pw@proxy:3128"}}, "env.http_proxy", "contains a password"),
        ({"outputs": "https://there/x?sv=1&sig=a%2Fb"}, "outputs", "contains a signature"),
    ],
    "what could not work is refused": [
        ({"outputs": "abfs://[there/x"}, "outputs", "a URL that fsspec supports"),
        ({"onFailure": {}}, "onFailure.hold", "is missing"),
        ({"onFailure": {"hold": 60}, "elastic": {}}, "onFailure", "can't be used with `elastic`"),
        ({"debug": 4}, "debug", "4 is not one of the job's ranks"),
        ({"debug": 0, "elastic": {}, "backend": "gloo"}, "debug", "can't be used with `elastic`"),
        ({"drill": {**_DRILL, "step": 0}, "backoffLimit": 9}, "drill.step", "at least 1"),
        ({"drill": {**_DRILL, "rank": 4}, "backoffLimit": 9}, "drill.rank", "4 is not one of the"),
        ({"drill": _DRILL, "backoffLimit": 4}, "drill", "`backoffLimit` of more than its 4 repl"),
        ({"drill": _DRILL, "retries": 1}, "drill", "`retryOn: [ownFailure]`"),
        ({"drill": _DRILL, "backoffLimit": 9, "restartPolicy": "Never"}, "drill", "can recover"),
        ({**_EXITING, "elastic": {}}, "restartPolicy", "too; use OnFailure"),
        ({"minGpuUtilization": 20}, "minGpuUtilization", "set `gpus`, or `backend: nccl`"),
        ({"minGpuUtilization": 0, "gpus": 1}, "minGpuUtilization", "from 1 to 100"),
        ({"minGpuUtilization": 101, "gpus": 1}, "minGpuUtilization", "from 1 to 100"),
    ],
}
# The same of jobs with other names, or with a program of their own.
REFUSED_OF: dict[str, list[tuple[str, Any, str, str]]] = {
    "requirements go with a script": [
        ("mine", {**OWN, "requirements": "a.txt"}, "requirements", "requires a `script`"),
        ("mine", {"build": {"context": "a"}, "requirements": "a"}, "requirements", "a `script`"),
    ],
    "a wrong value is reported without its consequences": [
        ("mine", {"script": 5}, "script", ""),
        ("mine", {**IMAGE, "command": []}, "command", "[] is not allowed; it must be a list of at"),
        ("mine", {"build": {"context": 1}}, "build.context", "either absolute or relative to the"),
    ],
    "the launcher alone holds": [
        ("mine", {**NOT_LAUNCHED, "onFailure": {"hold": 60}}, "onFailure", "that runs slipway_tr"),
        ("mine", {**NOT_LAUNCHED, "debug": 1}, "debug", "that runs slipway_trainer.launch"),
        (
            "mine",
            {**NOT_LAUNCHED, "drill": _DRILL, "backoffLimit": 9},
            "drill",
            "that runs slipway",
        ),
        ("mine", {**ACCELERATE, "debug": 1}, "debug", "works only for a Python file"),
    ],
    "nccl needs a GPU for each process": [
        ("mnist-nccl", {"processesPerNode": 4, "gpus": 2}, "gpus", "2 is too few"),
        ("mnist-nccl", {"processesPerNode": 4, "master": {"gpus": 3}}, "master.gpus", "3 is too f"),
    ],
    "a name is a DNS label": [
        (name, OWN, "", "DNS label") for name in ("Mine", "1st", "my.job", "mine-", "a" * 41, "")
    ],
    "a custom job has exactly one program": [
        ("mine", {**OWN, "script": "a.py"}, "image", ""),
        ("mine", {"script": "a.py", "build": {"context": "."}}, "build", ""),
        ("mine", {"script": "a", "command": ["x"], "scriptEntry": "a.py"}, "scriptEntry", ""),
        ("mine", {"command": ["python3"]}, "image", ""),
        ("mine", {**IMAGE, "workingDir": "src"}, "workingDir", ""),
        ("mine", {**IMAGE, "keep": ["/tmp/a"]}, "keep[0]", ""),
        ("mine", {"build": {"context": "."}, "scriptEntry": "a.py"}, "scriptEntry", ""),
        ("mine", {}, "", ""),
        ("mine", {**OWN, "epochs": 2}, "epochs", ""),  # a field of the catalogue's programs
    ],
    "an elastic job's workers are between its bounds": [
        ("mnist-elastic", {"elastic": {"minReplicas": 4}}, "elastic.minReplicas", ""),
        ("mnist-elastic", {"elastic": {"maxReplicas": 2}}, "elastic.maxReplicas", ""),
        ("mnist-elastic", {"workers": 0}, "elastic.minReplicas", ""),
        ("mnist-elastic", {"elastic": None}, "elastic", ""),
        ("mnist-elastic", {"master": {"cpu": 1}}, "master", ""),
    ],
    "an image is a whole reference": [
        ("mine", {**OWN, "image": image}, "image", "") for image in ("a/b@sha256:12", "a/b:", "a b")
    ],
    **{rule: [("mnist-gloo", *row) for row in rows] for rule, rows in REFUSED.items()},
}


@pytest.mark.parametrize(
    ("rule", "name", "declared", "key", "words"),
    [(rule, *each) for rule, rows in REFUSED_OF.items() for each in rows],
)
def test_what_breaks_a_rule_is_one_problem_of_its_key(
    rule: str, name: str, declared: Any, key: str, words: str
) -> None:
    found = problems(name, declared)
    assert found.keys() == {key}, rule
    assert words in found[key]


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("mnist-gloo", {"debug": 3, "onFailure": {"hold": "30m"}}),
        ("mnist-gloo", {"drill": _DRILL, "backoffLimit": 9}),
        ("mnist-gloo", {"drill": _DRILL, "elastic": {}}),
        ("mnist-gloo", {**_RETRIED, "restartPolicy": "Never"}),
        ("mnist-gloo", {"minGpuUtilization": 20, "backend": "nccl"}),
        ("mnist-gloo", {"minGpuUtilization": "20", "master": {"gpus": 1}}),
        ("mnist-gloo", {"outputs": "abfs://container@account.dfs.core.example/folder"}),
        ("mnist-gloo", {"env": {"HOME": "/work", "OMP_NUM_THREADS": 3}}),
        ("mine", {**IMAGE, "debug": 1}),
        ("mine", {**IMAGE, "metrics": {"named": "(?P<v>a)"}}),
        ("mine", {**IMAGE, "debug": 1, "command": [*LAUNCH, "--", "train.py"]}),
        ("mine", {**OWN, **volume(claim="a", mountPath="/data")}),  # where demos have their data
        *(
            ("mnist-gloo", volume(claim="a", mountPath=place))
            for place in ("/work/data", "/data/cifar10", "/opt/own", "/work/inputs")
        ),
        *(
            ("mine", {"image": f"registry.example:5000/team/train{tag}"})
            for tag in ("", ":1.4", f"@sha256:{SHA}", f":1@sha256:{SHA}")
        ),
    ],
)
def test_fields_that_go_together_are_accepted(name: str, declared: dict[str, Any]) -> None:
    job(name, declared)


def test_a_secret_of_the_configuration_is_named_without_the_projects_prefix() -> None:
    found = problems("mnist-gloo", token(config="slipway:hfToken"))
    assert "such as hfToken" in found["env.TOKEN.config"]


def test_each_volume_is_of_one_kind_at_its_own_place() -> None:
    volumes: dict[str, dict[str, Any]] = {
        "none": {},
        "two": {"claim": "a", "size": "1Gi"},
        "empty": {"size": "1Gi", "readOnly": True},
        "foreign": {"claim": "a", "keep": True},
        **{name: {"claim": name, "mountPath": "/mnt"} for name in ("a", "b")},
    }
    placed = {name: {"mountPath": f"/mnt/{name}", **each} for name, each in volumes.items()}
    found = problems("mnist-gloo", {"volumes": placed})
    where = {"none", "two", "empty.readOnly", "foreign.keep", "a.mountPath", "b.mountPath"}
    assert found.keys() == {f"volumes.{each}" for each in where}
    assert "it must have exactly one of claim, size, emptyDir, hostPath" in found["volumes.none"]
    assert "has claim and size" in found["volumes.two"]


def test_all_problems_are_reported_together() -> None:
    wrong = {
        "workers": -1, "epochs": "three", "batchSize": 1.5, "learningRate": -1, "batchsize": 3,
        "cpu": True, "memory": "12", "backend": "hccl", "restartPolicy": "Sometimes",
        "env": {"RANK": "1", "a b": "c", "TOKEN": {"secret": "hub", "kye": "x"}},
        "labels": {"slipway.dev/run": "x"}, "annotations": {"a/b/c": "x"},
        "master": {"cpu": 0, "memroy": "1Gi"}, "attempts": 1, "name": "x", "module": "mnist",
        "volumes": {
            "data": {"mountPath": "data"}, "tmp": {"mountPath": "/a", "size": 5},
            "host": {"mountPath": "/b", "hostPath": "here"}, "off": {"emptyDir": False},
            "root": {"mountPath": "/", "claim": "a"},
        },
        "processesPerNode": 0, "ttlSecondsAfterFinished": 5, "minAccuracy": 1.5, "elastic": 3,
        "outputs": "/results", "args": "not a list", "require": {"loss": {"most": 1}, "f1": 1},
        "tolerations": [{"operator": "exists"}], "command": ["true"], "dependsOn": ["a", "B"],
    }  # fmt: skip
    found = problems("mnist-gloo", wrong)
    assert found.keys() == {
        "workers", "epochs", "batchSize", "learningRate", "batchsize", "cpu", "memory",
        "backend", "restartPolicy", "env.RANK", "env.a b", "env.TOKEN.kye", "env.TOKEN.key",
        'labels["slipway.dev/run"]', "annotations.a/b/c",
        "master.cpu", "master.memroy", "attempts", "name", "module",
        "volumes.data.mountPath", "volumes.tmp", "volumes.tmp.size", "volumes.host.hostPath",
        "volumes.off.emptyDir", "volumes.off.mountPath", "volumes.root.mountPath",
        "processesPerNode", "ttlSecondsAfterFinished", "minAccuracy", "elastic", "outputs",
        "args", "require.loss.most", "require.f1",
        "tolerations[0].operator", "command", "dependsOn[1]",
    }  # fmt: skip
    assert 'did you mean "key"?' in found["env.TOKEN.kye"]
    assert "512Mi" in found["memory"]
    assert "absolute path" in found["volumes.data.mountPath"]
    assert "Slipway does not use itself" in found["volumes.tmp"]


def test_what_the_command_line_writes_is_read() -> None:
    """`pulumi config set --path` writes whole numbers and true as such, all else as text."""
    written = {
        "script": "train.py",
        "args": ["--epochs", 3, "--lr", "0.1", True, 0.5],
        "env": {"LEVEL": 1, "DEBUG": True, "VERSION": "1.10"},
        "labels": {"example.org/cost": 7},
    }
    changed = job("mine", written)
    assert changed.args == ("--epochs", "3", "--lr", "0.1", "true", "0.5")
    assert changed.env == {"LEVEL": "1", "DEBUG": "true", "VERSION": "1.10"}
    assert changed.labels == {"example.org/cost": "7"}


def test_conflicting_fields_raise_an_error_in_python() -> None:
    with pytest.raises(ValidationError, match="exactly one of script, build and image"):
        TrainingJob(name="mine", script="a.py", image="example.org/mine:1", command=("x",))


@settings(max_examples=10)
@given(jobs.filter(lambda each: each.module is None))
def test_whatever_a_python_user_says_a_stacks_file_can_say(own: TrainingJob) -> None:
    said = TypeAdapter(TrainingJob).dump_python(own, mode="json", by_alias=True, exclude_none=True)
    del said["name"]
    assert job(own.name, json.loads(json.dumps(said))) == own


def read(section: dict[str, Any], around: Surroundings = LARGE) -> JobsConfig:
    return config.read(section, "slipway:jobs", around)


def keys(section: dict[str, Any], around: Surroundings = LARGE) -> list[str]:
    """Return the keys of the problems below the section's own, in order."""
    found = read(section, around).problems
    return sorted(problem.key.removeprefix("slipway:jobs.") for problem in found)


def test_catalogue_entries_that_the_cluster_cannot_run_are_skipped_with_the_reason() -> None:
    found = read({"mnist-gloo": {}}, SMALL)
    assert found.problems == []
    assert found.skipped.keys() == {"mnist-nccl", "cifar-nccl"}
    assert all("this cluster has none" in reason for reason in found.skipped.values())
    assert read({}).skipped == {}, "with GPUs none is"
    tiny = Surroundings(0, Capacity(Decimal(1), 2**30, 0, 1))
    assert read({}, tiny).skipped.keys() == CATALOG.keys()


def test_an_entry_that_the_stack_names_is_refused_and_not_skipped() -> None:
    assert keys({"mnist-nccl": {}}, SMALL) == ["mnist-nccl.backend"]
    assert "mnist-nccl" not in read({"mnist-nccl": {}}, SMALL).skipped
    assert keys({"mnist-nccl": {"workers": 999}}, Surroundings()) == [], "nothing is known"


def test_problems_of_all_jobs_and_kinds_are_reported_together() -> None:
    interface = {"GLOO_SOCKET_IFNAME": "^lo"}
    section = {
        "one": {"script": "tests/nowhere.py", "image": "x", "gangScheduling": True},
        "two": {"script": "tests/nowhere.py", "requirements": "none.txt", "env": interface},
        "three": {"build": {"context": "nowhere"}, "restartPolicy": "ExitCode", "backoffLimit": 1},
    }
    assert set(keys(section)) == {
        *("one.image", "one.gangScheduling"),
        *("two.script", "two.requirements", "two.env.GLOO_SOCKET_IFNAME"),
        *("three.build.context", "three.backoffLimit"),
    }


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("Dockerfile", 'CMD ["torchrun", "train.py"]', True),
        ("Dockerfile", '# torchrun is not used\nCMD ["python3", "train.py"]', False),
        ("own/train.py", "from slipway_trainer import elastic", True),
        ("own/train.py", "from torch.distributed.elastic import rendezvous", True),
        ("own/train.py", "from torch.distributed.launcher.api import elastic_launch", True),
        ("own/train.py", 'subprocess.run(["torchrun", "worker.py"])', True),
        # It writes an error into a file, whoever has started the program.
        ("a.py", "from torch.distributed.elastic.multiprocessing.errors import record", False),
        (
            "a.py",
            "from torch.distributed.elastic.utils.data import ElasticDistributedSampler",
            False,
        ),
        ("start.sh", "exec torchrun train.py", True),
        (".cache/a.py", "torchrun", False),
        ("a.txt", "torchrun", False),
    ],
)
def test_an_elastic_build_is_searched_for_a_rendezvous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, found: bool
) -> None:
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    for name, content in {"Dockerfile": 'CMD ["./start"]', file: text}.items():
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text(f"{content}\n")
    section = {"mine": {"build": {"context": "own"}, "workers": 2, "elastic": {"minReplicas": 1}}}
    assert keys(section) == ([] if found else ["mine.elastic"])


def test_problems_between_jobs_are_reported_beside_those_within_one() -> None:
    """A job may depend on one whose own declaration is wrong."""
    for name, expected in (("B", ["a.dependsOn[0]", "b.cpu"]), ("b", ["b.cpu"])):
        section = {"a": {**OWN, "dependsOn": [name]}, "b": {**OWN, "cpu": "none"}}
        assert keys(section) == expected


def test_an_earlier_name_is_of_one_job_alone() -> None:
    assert keys({"mnist-gloo": {"was": "lm-fsdp"}, "lm-fsdp": {}}) == ["mnist-gloo.was[0]"]
    assert len(keys({name: {"was": "old"} for name in ("mnist-gloo", "lm-fsdp")})) == 2
