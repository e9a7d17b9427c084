"""An imported job has all that a job can have of the original, and the rest is named."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.paths import CHECKOUT
from jobs.config import declare
from jobs.imported import imported
from jobs.model.job import TrainingJob, declaration
from jobs.model.manifest import manifest
from jobs.model.submission import Submission
from scripts.cli.from_yaml import as_yaml, documents
from tests.unit.anything import VALUES
from tests.unit.docs.test_jobs import jobs_in
from tests.unit.jobs_declared import jobs

IMAGE = "registry.example/team/train:1.4"
_FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_RUN_BY = ("Master", "Worker")
_SAME = (
    *("workers", "elastic", "processes_per_node", "cpu", "memory", "ephemeral_storage", "gpus"),
    *("limits", "shared_memory", "node_selector", "tolerations", "pull_policy", "pull_secrets"),
    *("ttl_seconds_after_finished", "priority_class", "labels", "annotations"),
)


def container(document: Any, role: str) -> Any:
    return document["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]["containers"][0]


# The demo of Kubeflow's operator, without GPUs: it runs its image's ENTRYPOINT.
(GLOO_DEMO,) = documents(str(CHECKOUT / "tests/strangers/gloo_demo/job.yaml"))
for _role in _RUN_BY:
    container(GLOO_DEMO, _role)["resources"] = {"limits": None}
TORCHRUN = yaml.safe_load(f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: llm.train, namespace: team, labels: {{team: a}}}}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimit: 0
  activeDeadlineSeconds: 7200
  template:
    spec:
      restartPolicy: Never
      serviceAccountName: trainer
      containers:
        - name: main
          image: {IMAGE}
          command: [torchrun, --nnodes=4, --nproc_per_node=2, --node_rank,
            $(JOB_COMPLETION_INDEX), "--rdzv-endpoint=llm-0.llm:29500", train.py, --lr, "1e-4"]
          env:
            - {{name: MASTER_ADDR, value: llm-0.llm}}
            - {{name: POD, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
            - {{name: TOKEN, valueFrom: {{secretKeyRef: {{name: hub, key: token}}}}}}
            - {{name: LEVEL, value: "010"}}
          resources: {{limits: {{cpu: 2, memory: 8Gi, nvidia.com/gpu: 2, rdma/ib: 1}}}}
          volumeMounts:
            - {{name: dshm, mountPath: /dev/shm}}
            - {{name: data, mountPath: /data, readOnly: true}}
            - {{name: out, mountPath: /out}}
            - {{name: config, mountPath: /config}}
          securityContext: {{runAsUser: 0, privileged: true}}
        - {{name: sidecar, image: "registry.example/side:1"}}
      volumes:
        - {{name: dshm, emptyDir: {{medium: Memory, sizeLimit: 2Gi}}}}
        - {{name: data, persistentVolumeClaim: {{claimName: images}}}}
        - {{name: out, hostPath: {{path: /srv/out, type: Directory}}}}
        - {{name: config, configMap: {{name: config}}}}
""")
TRAIN_JOB = yaml.safe_load(f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: second-version}}
spec:
  runtimeRef: {{name: torch-distributed}}
  trainer:
    image: {IMAGE}
    command: [torchrun, train.py]
    numNodes: 2
    numProcPerNode: 4
    resourcesPerNode: {{requests: {{cpu: "2", memory: 1500Mi}}}}
""")


def job_of(document: Mapping[str, Any]) -> TrainingJob:
    """Return the job that a document's entry declares, once it is in a stack's file as YAML."""
    name, entry, _ = imported(document)
    job = declare(name, yaml.safe_load(as_yaml({name: entry}))[name], name)
    assert isinstance(job, TrainingJob), job
    return job


def rendered(job: TrainingJob) -> dict[str, Any]:
    return manifest(Submission(job=job, image=job.image))


def missing(part: Any, whole: Any, place: str = "") -> Iterator[str]:
    """Yield where something of a document is not in another one; items of lists go by name."""
    if isinstance(part, dict) and isinstance(whole, dict):
        for key, value in part.items():
            yield from missing(value, whole.get(key), f"{place}.{key}")
    elif isinstance(part, list) and part and isinstance(part[0], dict) and "name" in part[0]:
        named = {each["name"]: each for each in whole or []}
        for each in part:
            yield from missing(each, named.get(each["name"]), f"{place}.{each['name']}")
    elif part is not None and part != whole:
        yield place


def test_the_gloo_demo_arrives_equal_at_the_api_server_and_is_printed_on_the_page() -> None:
    name, entry, notes = imported(GLOO_DEMO)
    found = rendered(job_of(GLOO_DEMO))
    assert [*missing(GLOO_DEMO, found)] == []
    assert "command" not in json.dumps(found["spec"])
    assert [note for note in notes if not note.startswith("by default ")] == []
    page = (CHECKOUT / "docs/from-elsewhere.md").read_text()
    assert as_yaml({"config": {"slipway:jobs": {name: entry}}}) in page
    named_as_a_demo = {**GLOO_DEMO, "metadata": {"name": "mnist-gloo"}}
    assert imported(named_as_a_demo)[0] == "mnist-gloo-imported"


_WORDS = st.sampled_from([
    *("$(RANK)", "$(OTHER)", "$$", "$(", "2026-01-01", "00123", "123e45", "yes", "~"),
    "'\"\n: é😀\x85",
])  # fmt: skip
"""Words that YAML or Kubernetes may read as something else."""


@st.composite
def importable(draw: st.DrawFn) -> TrainingJob:
    """Return a job of fields that another kind's YAML has, too."""
    job = draw(jobs)
    words = st.lists(_WORDS, min_size=1, max_size=3).map(tuple)
    plain = {name: text for name, text in job.env.items() if "$(" not in str(text)}
    volumes = {name: each for name, each in job.volumes.items() if each.claim or each.empty_dir}
    return TrainingJob(
        name=job.name,
        image=IMAGE,
        command=draw(st.none() | words),
        args=draw(words) if draw(st.booleans()) else (),
        working_dir=draw(st.none() | st.just("/srv/app")),
        env=plain | ({"WORD_X": draw(_WORDS.filter(lambda word: "$(" not in word))}),
        volumes=volumes,
        restart_policy=draw(st.sampled_from(["OnFailure", "Never"])),
        backoff_limit=draw(st.integers(2, 9)),
        clean_pod_policy=draw(st.sampled_from(["None", "Running", "All"])),
        queue=draw(st.none() | st.just("research")),
        **{name: getattr(job, name) for name in _SAME},
    )


@_FEW
@given(importable())
def test_a_job_that_was_submitted_can_be_imported_again(job: TrainingJob) -> None:
    # The object's own limit is later, for runs that nobody waits for.
    found = replace(job_of(rendered(job)), timeout=job.timeout)
    assert rendered(found) == rendered(job)
    # What is so by default need not be said.
    assert [*missing(declaration(found), declaration(job))] == []


@_FEW
@given(
    st.sampled_from([GLOO_DEMO, TORCHRUN, TRAIN_JOB]),
    st.lists(st.tuples(st.lists(st.integers(0, 20), max_size=9), VALUES), min_size=1, max_size=3),
)
def test_any_document_is_imported_or_refused_in_a_sentence(
    document: Mapping[str, Any], changes: list[tuple[list[int], Any]]
) -> None:
    changed: Any = copy.deepcopy(document)
    for steps, value in changes:
        part = changed
        for step in steps:
            keys = [*part] if isinstance(part, dict) else [*range(len(part))]
            key = keys[step % len(keys)]
            if not isinstance(part[key], dict | list) or not part[key]:
                break
            part = part[key]
        keys = [*part] if isinstance(part, dict) else [*range(len(part))]
        if keys:
            part[keys[0]] = json.loads(json.dumps(value, default=str))
    with suppress(ValueError):
        name, entry, _ = imported(changed)
        assert yaml.safe_load(as_yaml({name: entry})) == {name: entry}


_ROLES = "spec pytorchReplicaSpecs"
_PLACES = ["metadata", "spec", "spec runPolicy", f"{_ROLES} Worker"]


@_FEW
@given(
    st.sampled_from([*_PLACES, *(f"{_ROLES} {role} template spec" for role in _RUN_BY)]),
    st.from_regex(r"[a-z][A-Za-z]{3,12}", fullmatch=True),
    st.sampled_from(["text", 3, True, ["a"], {"b": {"c": 1}}, [{"name": "d", "e": 1}]]),
)
def test_nothing_is_lost_without_a_word(place: str, key: str, value: Any) -> None:
    document: Any = copy.deepcopy(GLOO_DEMO)
    part = document
    for step in place.split():
        part = part.setdefault(step, {})
    if key in part or key in {"suspend", "selector", "subdomain"}:
        return
    before = imported(document)[2]
    part[key] = value
    _, _, notes = imported(document)
    (added,) = (note for note in notes if note not in before)
    assert f"{place.replace(' ', '.')}.{key}" in added


def test_a_job_that_runs_torchrun_gets_its_world_from_the_operator() -> None:
    name, entry, notes = imported(TORCHRUN)
    assert name == "llm-train"
    assert entry == {
        "image": IMAGE, "command": ["torchrun", "train.py", "--lr", "1e-4"],
        "workers": 3, "processesPerNode": 2, "restartPolicy": "Never", "backoffLimit": 0,
        "cpu": 2, "memory": "8Gi", "gpus": 2, "limits": {"cpu": 2}, "sharedMemory": "2Gi",
        "volumes": {
            "data": {"mountPath": "/data", "readOnly": True, "claim": "images"},
            "out": {"mountPath": "/out", "hostPath": "/srv/out"},
        },
        "timeout": 7200, "labels": {"team": "a"},
        "env": {"TOKEN": {"secret": "hub", "key": "token"}, "LEVEL": "010"},
    }  # fmt: skip
    of_pod = "serviceAccountName", "containers[1]", "volumes[3]"
    of_container = (
        *("command", "env[0].value", "env[1].valueFrom.fieldRef", "resources.limits.rdma/ib"),
        *("volumeMounts[3]", "securityContext"),
    )
    assert {note.partition(": ")[0].partition(" ")[0] for note in notes} == {
        *("metadata.name", "metadata.namespace"),
        *(f"spec.template.spec.{each}" for each in of_pod),
        *(f"spec.template.spec.containers[0].{each}" for each in of_container),
    }


@pytest.mark.parametrize(
    ("text", "processes", "left"),
    [
        ("torchrun --nnodes 2 --nproc-per-node 4 train.py", 4, "torchrun train.py"),
        ("torchrun --master_addr=$M \\\n --node-rank $R -v x.py", 1, "torchrun \\ -v x.py"),
        ('torchrun --rdzv_id "a b" --nproc_per_node=auto x.py', 1, "torchrun x.py"),
    ],
)
def test_the_options_are_found_in_a_shells_line_too(text: str, processes: int, left: str) -> None:
    document: Any = copy.deepcopy(TORCHRUN)
    document["spec"]["template"]["spec"]["containers"][0]["command"] = ["bash", "-c", text]
    _, entry, _ = imported(document)
    assert entry["command"][-1].split() == left.split()
    assert entry.get("processesPerNode", 1) == processes


def test_an_option_that_is_removed_leaves_no_empty_word() -> None:
    document: Any = copy.deepcopy(TORCHRUN)
    for args, left in (
        (["--nnodes=2", "train.py"], ["train.py"]),
        (["", "--nnodes", "2", "--node_rank=0"], [""]),
        (["--nnodes=2 train.py"], [" train.py"]),
    ):
        document["spec"]["template"]["spec"]["containers"][0]["args"] = args
        assert imported(document)[1]["args"] == left


def test_a_master_with_other_resources_has_them_and_other_words_of_it_are_named() -> None:
    document = copy.deepcopy(GLOO_DEMO)
    own = {"cpu": "1", "memory": "2Gi"}
    workers = {"cpu": "1", "memory": "8Gi", "nvidia.com/gpu": "1"}
    for role, limits in (("Master", own), ("Worker", workers)):
        container(document, role)["resources"] = {"limits": limits}
    _, entry, _ = imported(document)
    expected = {"cpu": "1", "memory": "8Gi", "gpus": "1", "limits": {"cpu": "1"}}
    assert entry.items() >= {**expected, "master": {"memory": "2Gi", "gpus": 0}}.items()
    assert [*missing(document, rendered(job_of(document)))] == []
    container(document, "Master")["args"] = ["--rank0"]
    assert imported(document)[2][0] == (
        'spec.pytorchReplicaSpecs.Master.template.spec.containers[0].args ["--rank0"]: the Master '
        "runs the same program as the Workers; set its own resources in `master`"
    )


def test_a_trainjob_of_the_second_version_becomes_a_job() -> None:
    name, entry, notes = imported(TRAIN_JOB)
    assert (name, notes[0].partition(":")[0]) == ("second-version", "spec.runtimeRef")
    program = {"image": IMAGE, "command": ["torchrun", "train.py"]}
    size = {"workers": 1, "processesPerNode": 4, "cpu": "2", "memory": "1500Mi"}
    assert entry == {**program, **size}
    without_image = copy.deepcopy(TRAIN_JOB)
    del without_image["spec"]["trainer"]["image"]
    with pytest.raises(ValueError, match="clustertrainingruntimes"):  # it has the image
        imported(without_image)


def test_the_page_and_the_examples_declare_jobs_that_are_allowed() -> None:
    page = (CHECKOUT / "docs/from-elsewhere.md").read_text()
    readme = (CHECKOUT / "examples/elasticdl/README.md").read_text()
    found: dict[str, Any] = {}
    for block in re.findall(r"```yaml\n(.*?)```", page + readme, re.DOTALL):
        found |= jobs_in(yaml.safe_load(block))
    assert {"hosts", "spawn", "cifar", "elasticdl"} < found.keys()
    for name, fields in found.items():
        job = declare(name, fields, name)
        assert isinstance(job, TrainingJob), job
        assert job.script is None or Path(CHECKOUT, job.script).exists()
