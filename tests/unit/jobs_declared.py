"""Any job that may be declared, for tests of what holds for all of them."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.parts import Build, Elastic, JobInput, Limits, Master, SecretKey, Toleration, Volume
from jobs.model.submission import Submission
from jobs.model.volumes import Script

IMAGE = "localhost/slipway-trainer:0123456789ab"
SCRIPT = Script("mine", "train.py", {"train.py": b"", "lib/a.py": b""})

_cpus = st.sampled_from(["400m", "2", "0.5", 3, 1.5])
_memories = st.sampled_from(["512Mi", "2Gi", "3G"])
_words = st.lists(st.text(max_size=8), max_size=3).map(tuple)
_names = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True)
_labels = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}\.example/[a-z]{1,5}", fullmatch=True), _names, max_size=2
)
_limits = st.builds(Limits, cpu=st.none() | _cpus, memory=st.none() | _memories)
_masters = st.builds(
    Master,
    cpu=st.none() | _cpus,
    memory=st.none() | _memories,
    gpus=st.none() | st.integers(8, 9),
    limits=st.none() | _limits,
)
_kinds: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"claim": "images"},
        {"claim": "images", "read_only": True},
        {"size": "5Gi"},
        {"empty_dir": True},
        {"empty_dir": "1Gi"},
        {"host_path": "/srv/images", "read_only": True},
        {"host_path": "/srv/results"},
    ]
)
_mounted = st.tuples(_names, _kinds).map(
    lambda both: (f"v-{both[0]}", Volume(mount_path=f"/mnt/{both[0]}", **both[1]))
)
_volumes = st.lists(_mounted, max_size=3).map(dict)
_programs = st.one_of(
    st.fixed_dictionaries(
        {"module": st.sampled_from(["mnist", "cifar"])},
        optional={
            "epochs": st.integers(1, 10_000),
            "batch_size": st.integers(1, 10_000),
            "learning_rate": st.floats(1e-9, 10),
            "goal": st.just("accuracy=0.98"),
        },
    ),
    st.just({"script": "train.py"}),
    st.just({"script": "train.py", "command": ("torchrun", "train.py"), "keep": ("*.pt",)}),
    st.just({"build": Build(context="examples/own")}),
    st.just({"image": "example.org/mine:1", "command": ("python3", "{rank}", "{hosts}")}),
    st.just({"image": "example.org/mine:1", "working_dir": "/mnt/own"}),
)


@st.composite
def _scales(draw: st.DrawFn) -> dict[str, Any]:
    """Return how many replicas and processes there are, and whether they may become fewer."""
    if draw(st.booleans()):
        workers = draw(st.integers(1, 999))
        elastic = Elastic(min_replicas=draw(st.integers(1, workers)))
        return {"workers": workers, "elastic": elastic}
    scale = {"workers": st.integers(0, 999), "processes_per_node": st.integers(1, 8)}
    return {**draw(st.fixed_dictionaries(scale)), "master": draw(st.none() | _masters)}


_others = st.fixed_dictionaries(
    {},
    optional={
        "args": _words,
        "backend": st.sampled_from(["gloo", "nccl"]),
        "cpu": _cpus,
        "memory": _memories,
        "ephemeral_storage": _memories,
        "gpus": st.integers(8, 9),
        "limits": _limits,
        "shared_memory": st.sampled_from(["128Mi", "512Mi"]),
        "node_selector": _labels,
        "tolerations": st.just((Toleration(key="example.org/gpu", operator="Exists"),)),
        "volumes": _volumes,
        "pull_policy": st.sampled_from(["IfNotPresent", "Always", "Never"]),
        "pull_secrets": st.just(("registry",)),
        "restart_policy": st.sampled_from(["OnFailure", "Never", "ExitCode"]),
        "backoff_limit": st.integers(0, 9),
        "timeout": st.integers(1, 10**6),
        "ttl_seconds_after_finished": st.integers(60, 3600),
        "priority_class": st.just("high"),
        "labels": _labels,
        "annotations": _labels,
        "env": st.dictionaries(
            st.from_regex(r"[A-Z_]{1,8}X", fullmatch=True),
            st.text(max_size=5) | st.just(SecretKey(secret="hub", key="token")),
        ),
        "outputs": st.just("file:///mnt/results"),
        "depends_on": st.just(("before",)),
        "inputs": st.dictionaries(
            st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True),
            st.builds(JobInput, job=_names, artifact=st.sampled_from(["net.pt", "a b/c$.pt"])),
            max_size=2,
        ),
        "min_accuracy": st.floats(0, 1),
    },
)

jobs = st.tuples(_names, _programs, _scales(), _others).map(
    lambda parts: TrainingJob(name=parts[0], **parts[1], **parts[2], **parts[3])
)


def submitted(job: TrainingJob, image: Any = IMAGE, **others: Any) -> Submission:
    """Return what is submitted for any job, with a script that was read for one that has one."""
    script = None if job.script is None else SCRIPT.mounted
    return Submission(job=job, image=job.image or image, **{"script": script, **others})


def rendered(job: TrainingJob, image: Any = IMAGE, **others: Any) -> dict[str, Any]:
    """Return the PyTorchJob of any job; see `submitted`."""
    return manifest(submitted(job, image, **others))


def pods(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod of each role of a PyTorchJob."""
    roles = document["spec"]["pytorchReplicaSpecs"]
    return {role: each["template"]["spec"] for role, each in roles.items()}


def variables(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a pod's program: their values, or where these come from."""
    (container,) = pod["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}
