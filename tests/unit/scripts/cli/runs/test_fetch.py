"""Which run's files are fetched, by what pod, and what there is to do where there are none."""

import io
import json
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from core import kube, toolchain
from core.paths import CHECKOUT
from jobs.model.job import TrainingJob
from jobs.model.parts import Volume
from jobs.model.places import VOLUME_URL
from jobs.result import RunResult
from scripts.cli.runs import fetch, reader_pod
from scripts.cli.runs.fetch import folder_of
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.archived_run import remembered
from tests.unit.jobs_declared import submitted
from tests.unit.scripts.cli.kept_state import resource
from tests.unit.shell_program import shell_program

KEPT = f"{VOLUME_URL}/outputs/mine"
LISTED = {"artifacts.json": {"url": f"{KEPT}/mine-1/artifacts.json", "sha256": "0", "bytes": 1}}


def job(result: Any, *, place: str | None = VOLUME_URL, **fields: Any) -> JobState:
    declared = TrainingJob(name="mine", **{"module": "mnist", **fields})
    ended = None if result is None else RunResult.from_map({"state": "Succeeded", **result})
    return JobState("mine", submitted(declared, place=place).inputs(), ended)


def folder(known: JobState) -> str | None:
    assert known.result is not None
    return folder_of(known, known.result)


def test_a_runs_folder_is_where_its_list_is_also_when_it_failed() -> None:
    assert folder(job({"run_id": "mine-1", "artifacts": LISTED})) == f"{KEPT}/mine-1"
    failed = {"state": "Failed", "failure": {"artifacts": LISTED}}
    assert folder(job(failed)) == f"{KEPT}/mine-1"


def test_a_custom_image_may_have_left_files_that_no_result_names() -> None:
    own: dict[str, Any] = {"module": None, "image": "example.org/own:1", "command": ("train",)}
    result = {"run_id": "mine-2"}
    assert folder(job(result, **own)) == f"{KEPT}/mine-2"
    assert folder(job(result, **own, outputs="s3://b/f")) == "s3://b/f/mine-2"
    assert folder(job(result, **own, place=None)) is None
    assert folder(job(result)) is None, "the trainer's image names all that it kept"
    assert folder(job(result, outputs_every=60)) == f"{KEPT}/mine-2", "but what was lost"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[[JobState | StackState], None]:
    """Return what lets a job be the stack's, or the stack have another state."""

    def be(there: JobState | StackState) -> None:
        state = StackState("k", jobs={"mine": there}) if isinstance(there, JobState) else there
        monkeypatch.setattr(fetch, "read_state", lambda *_, **__: state)

    return be


Known = Callable[[JobState | StackState], None]
FAILED = job({"state": "Failed", "run_id": "mine-2"})


@pytest.mark.parametrize(
    ("there", "name", "run", "says"),
    [
        (job({}), "", "", "JOB=NAME. Jobs in dev: mine"),
        (job({}), "mien", "", "Did you mean mine?"),
        (job(None), "mine", "", "has no result yet"),
        (StackState(None, jobs={"mine": job({})}), "mine", "", "has no cluster"),
        (job({}), "mine", "", "make rerun JOB=mine STACK=dev"),
        # After a failure the run before it is offered; the last success is not the last run.
        (FAILED, "mine", "", "RUN=succeeded"),
        (
            *(job({"artifacts": LISTED}, place=None), "mine", "succeeded"),
            "RUN=succeeded works only for files that the stack keeps",
        ),
    ],
)
def test_where_there_is_nothing_to_fetch_the_next_step_is_named(
    there: JobState | StackState, name: str, run: str, says: str, known: Known
) -> None:
    known(there)
    with pytest.raises(CommandError) as caught:
        fetch.fetch("dev", name, run=run)
    assert says in str(caught.value)


@pytest.mark.parametrize("below", ["", "/deeper/still"])
def test_a_place_where_nothing_can_be_put_is_named_before_anything_is_copied(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Known
) -> None:
    (tmp_path / "file").touch()
    known(job({"artifacts": LISTED}))
    with pytest.raises(CommandError, match=rf"^{tmp_path}/file is a file, .*: TO=DIRECTORY"):
        fetch.fetch("dev", "mine", f"{tmp_path}/file{below}")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(CommandError, match=rf"^{tmp_path} is not writable"):
        fetch.fetch("dev", "mine", f"{tmp_path}/new{below}")


def test_the_pod_reads_as_the_job_and_asks_for_little() -> None:
    there = job(
        {},
        place=None,
        outputs="file:///results",
        backend="nccl",
        gpus=2,
        node_selector={"gpu": "yes"},
        env={"KEY": "value", "PYTHONPATH": "/of/the/program"},
        volumes={"results": Volume(size="1Gi", mount_path="/results")},
    )
    found = reader_pod.manifest(there, "trainer:2")
    spec = found["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "trainer:2"
    assert {"name": "KEY", "value": "value"} in container["env"]
    assert "PYTHONPATH" not in {each["name"] for each in container["env"]}
    assert {each["mountPath"] for each in container["volumeMounts"]} == {"/results", "/tmp"}
    assert {each["name"] for each in spec["volumes"]} == {"results", "tmp"}
    assert "nvidia.com/gpu" not in str(container["resources"])
    assert "nodeSelector" not in spec
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["securityContext"]["runAsUser"] == 65532
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "slipway"


def test_the_pod_has_the_stacks_volume_where_the_job_kept_its_files() -> None:
    found = reader_pod.manifest(job({}), "trainer:2")
    mounts = found["spec"]["containers"][0]["volumeMounts"]
    assert {each["name"]: each["mountPath"] for each in mounts}["slipway-kept"] == "/opt/kept"


@pytest.mark.parametrize("name", ["imaged", "mnist-elastic", "mnist-gloo", "scripted"])
def test_files_of_a_run_that_was_declared_until_november_2026_are_found(name: str) -> None:
    old = json.loads((CHECKOUT / "tests/unit/jobs/run/runs_of_bea3486.json").read_text())
    inputs = old["inputs"][name]
    run = resource("slipway:jobs:PyTorchJob", name, inputs=inputs)
    known = StackState.from_export({"deployment": {"resources": [run]}}).jobs[name]
    assert known.kept == inputs["kept"]
    assert "slipway-kept" in str(reader_pod.manifest(known, "trainer:2")["spec"]["volumes"])


@pytest.mark.parametrize(
    ("result", "remembered_run", "run"),
    [
        ({"run_id": "mine-2", "artifacts": LISTED}, None, "mine-1"),
        ({"state": "Failed", "run_id": "mine-3", "last_succeeded": "mine-2"}, "mine-1", "mine-2"),
        ({"state": "Failed", "run_id": "mine-3"}, "mine-1", "mine-1"),
        ({"state": "Failed", "run_id": "mine-3"}, None, "succeeded"),
    ],
    ids=["its own", "by the state", "by this machine's history", "by a note of before"],
)
def test_the_last_run_that_succeeded_is_the_one_that_was_judged_so(
    result: dict[str, Any],
    remembered_run: str | None,
    run: str,
    monkeypatch: pytest.MonkeyPatch,
    known: Known,
) -> None:
    """In the first case the list has the folder, as ever."""
    asked: list[list[str]] = []

    def output(_kubeconfig: str, _pod: object, command: list[str], _to: object) -> None:
        asked.append(command)
        raise reader_pod.FetchError("nothing there")

    if remembered_run is not None:
        remembered(remembered_run, {"state": "Succeeded"})
        remembered("mine-3", {"state": "Failed"})
    known(StackState("k", jobs={"mine": job(result)}, trainer="trainer:2"))
    monkeypatch.setattr(kube, "connect", lambda _: None)
    monkeypatch.setattr(reader_pod, "running", lambda *_: nullcontext())
    monkeypatch.setattr(reader_pod, "output", output)
    with pytest.raises(CommandError, match="nothing there"):
        fetch.fetch("dev", "mine", run="succeeded")
    assert asked[0][-1] == f"{KEPT}/{run}"


def reads(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> list[str]:
    """Return the names in the tar that a kubectl of this script prints."""
    program = shell_program(directory / "kubectl", script)
    monkeypatch.setattr(toolchain, "path", lambda _name: program)
    metadata = {"metadata": {"name": "fetch-mine", "namespace": "n"}}
    with TemporaryFile() as fetched:
        reader_pod.output("a: kubeconfig", metadata, ["send", "url"], fetched)
        fetched.seek(0)
        with tarfile.open(fileobj=fetched, mode="r:") as tar:
            return tar.getnames()


def test_kubectl_reads_the_pods_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w|") as tar:
        tar.addfile(tarfile.TarInfo("net.pt"))
    (tmp_path / "tar").write_bytes(content.getvalue())
    script = f"""
        [ "${{1%%=*}} $(cat "${{1#*=}}")" = "--kubeconfig a: kubeconfig" ] || exit 1
        shift 2
        [ "$*" = "exec --namespace n fetch-mine -- send url" ] && cat {tmp_path}/tar"""
    assert reads(tmp_path, monkeypatch, script) == ["net.pt"]


def test_a_failing_command_shows_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "echo why >&2; echo command terminated with exit code 1 >&2; exit 1"
    with pytest.raises(reader_pod.FetchError, match=r"^the files can't be read: why$"):
        reads(tmp_path, monkeypatch, script)
    with pytest.raises(tarfile.ReadError):
        reads(tmp_path, monkeypatch, "exit 0")
