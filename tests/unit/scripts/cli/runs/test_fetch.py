"""Which run's files are fetched, by what pod, and what there is to do where there are none."""

import errno
import json
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from core import kube, tokens, toolchain
from core.paths import CHECKOUT
from jobs.model.job import TrainingJob
from jobs.model.parts import Volume
from jobs.model.places import VOLUME_URL
from jobs.result import RunResult
from scripts.cli.runs import fetch, kept
from scripts.cli.runs.fetch import folder_of
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.archived_run import remembered
from tests.unit.jobs_declared import submitted
from tests.unit.scripts.cli.kept_state import resource
from tests.unit.shell_program import shell_program

KEPT = f"{VOLUME_URL}/outputs/mine"
Known = Callable[..., None]
Reader = Callable[[Exception], list[list[str]]]
OWN: dict[str, Any] = {"module": None, "image": "example.org/own:1", "command": ("train",)}
LISTED = {"artifacts.json": {"url": f"{KEPT}/mine-1/artifacts.json", "sha256": "0", "bytes": 1}}


def job(result: Any, *, place: str | None = VOLUME_URL, **fields: Any) -> JobState:
    declared = TrainingJob(name="mine", **{"module": "mnist", **fields})
    ended = None if result is None else RunResult.from_map({"state": "Succeeded", **result})
    return JobState("mine", submitted(declared, place=place).inputs(), ended)


def folder(known: JobState) -> str | None:
    assert known.result is not None
    return folder_of(known, known.result)


def test_a_runs_folder_is_where_its_list_is_or_may_have_been_left_by_a_custom_image() -> None:
    assert folder(job({"run_id": "mine-1", "artifacts": LISTED})) == f"{KEPT}/mine-1"
    assert folder(job({"state": "Failed", "failure": {"artifacts": LISTED}})) == f"{KEPT}/mine-1"
    result = {"run_id": "mine-2"}
    assert folder(job(result, **OWN)) == f"{KEPT}/mine-2"
    assert folder(job(result, **OWN, outputs="s3://b/f")) == "s3://b/f/mine-2"
    assert folder(job(result, **OWN, place=None)) is None
    assert folder(job(result)) is None, "the trainer's image names all that it kept"
    assert folder(FAILED) == f"{KEPT}/mine-2", "but a run may have ended while it copied"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Return what lets a job be the stack's."""

    def be(there: JobState, kubeconfig: str | None = "k") -> None:
        state = StackState(kubeconfig, "n", {"mine": there}, trainer="trainer:2")
        monkeypatch.setattr(fetch, "read_state", lambda *_, **__: state)

    return be


FAILED = job({"state": "Failed", "run_id": "mine-2"})


@pytest.mark.parametrize(
    ("there", "name", "run", "says"),
    [
        (job({}), "", "", "JOB=NAME. Jobs in dev: mine"),
        (job({}), "mien", "", "Did you mean mine?"),
        (job(None), "mine", "", "has no result yet"),
        (job({}), "mine", "", "make rerun JOB=mine STACK=dev"),
        # After a failure the run before it is offered; the last success is not the last run.
        (job({"state": "Failed"}), "mine", "", "RUN=succeeded"),
        (job({"artifacts": LISTED}, place=None), "mine", "succeeded", "only for files that the st"),
    ],
)
def test_where_there_is_nothing_to_fetch_the_next_step_is_named(
    there: JobState, name: str, run: str, says: str, known: Known
) -> None:
    known(there)
    with pytest.raises(CommandError) as caught:
        fetch.fetch("dev", name, run=run)
    assert says in str(caught.value)
    known(there, None)
    if name == "mine":
        with pytest.raises(CommandError, match="has no cluster"):
            fetch.fetch("dev", name, run=run)


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
        {}, place=None, outputs="file:///results", backend="nccl", gpus=2,
        node_selector={"gpu": "yes"}, env={"KEY": "value", "PYTHONPATH": "/of/the/program"},
        volumes={"results": Volume(size="1Gi", mount_path="/results")},
    )  # fmt: skip
    found = kept.reader_pod(there, "trainer:2")
    spec = found["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "trainer:2"
    assert {"name": "KEY", "value": "value"} in container["env"]
    assert "PYTHONPATH" not in {each["name"] for each in container["env"]}
    assert {each["mountPath"] for each in container["volumeMounts"]} == {"/results", "/tmp"}
    assert {each["name"] for each in spec["volumes"]} == {"results", "tmp"}
    assert "nvidia.com/gpu" not in str(container["resources"])
    assert "nodeSelector" not in spec
    day = spec["activeDeadlineSeconds"]
    assert (day, container["command"][-1]) == (24 * 3600, f"import time; time.sleep({day})")
    assert spec["securityContext"]["runAsUser"] == 65532
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "slipway"


@pytest.mark.parametrize("name", ["imaged", "mnist-elastic", "mnist-gloo", "scripted"])
def test_files_of_a_run_that_was_declared_until_november_2026_are_found(name: str) -> None:
    old = json.loads((CHECKOUT / "tests/unit/jobs/run/runs_of_bea3486.json").read_text())
    inputs = old["inputs"][name]
    run = resource("slipway:jobs:PyTorchJob", name, inputs=inputs)
    known = StackState.from_export({"deployment": {"resources": [run]}}).jobs[name]
    assert known.kept == inputs["kept"]
    assert "slipway-kept" in str(kept.reader_pod(known, "trainer:2")["spec"]["volumes"])


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
    result: dict[str, Any], remembered_run: str | None, run: str, reader: Reader, known: Known
) -> None:
    """In the first case the list has the folder, as ever."""
    if remembered_run is not None:
        remembered(remembered_run, {"state": "Succeeded"})
        remembered("mine-3", {"state": "Failed"})
    known(job(result))
    asked = reader(kept.FetchError("nothing there"))
    with pytest.raises(CommandError, match="nothing there"):
        fetch.fetch("dev", "mine", run="succeeded")
    assert asked[0][-1] == f"{KEPT}/{run}"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Return what lets the pod's command fail, and returns each command after its folder."""
    asked: list[list[str]] = []

    def fail(error: Exception) -> list[list[str]]:
        def output(_kubeconfig: str, _pod: object, command: list[str], to: IO[bytes]) -> None:
            asked.append([str(Path(f"/proc/self/fd/{to.fileno()}").readlink().parent), *command])
            raise error

        monkeypatch.setattr(kube, "connect", lambda _: None)
        monkeypatch.setattr(kept, "running_pod", lambda *_: nullcontext())
        monkeypatch.setattr(kept, "run_in_pod", output)
        return asked

    return fail


def test_a_failing_command_shows_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "echo why >&2; echo command terminated with exit code 1 >&2; exit 1"
    program = shell_program(tmp_path / "kubectl", script)
    monkeypatch.setattr(toolchain, "path", lambda _name: program)
    pod = {"metadata": {"name": "fetch-mine", "namespace": "n"}}
    unread = r"^the files can't be read: why$"
    with TemporaryFile() as to, pytest.raises(kept.FetchError, match=unread):
        kept.run_in_pod("a: kubeconfig", pod, ["send", "url"], to)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (kept.FetchError("no pod"), r"mine were not copied: no pod\. Run `make up"),
        (tarfile.ReadError("cut"), "mine were not copied: cut"),
        (OSError(errno.ENOSPC, "No space left"), r"mine/new can't be .*No space.*TO=DIRECTORY"),
    ],
    ids=["pod", "cut", "disk"],
)
def test_files_that_do_not_arrive_are_a_sentence_with_the_next_step(
    error: Exception, message: str, reader: Reader, known: Known, tmp_path: Path
) -> None:
    """They arrive in the folder itself if it exists: the one above it may be read-only or full."""
    (tmp_path / "mine/new").mkdir(parents=True)
    known(job({"artifacts": LISTED}))
    asked = reader(error)
    with pytest.raises(CommandError, match=message):
        fetch.fetch("dev", "mine", f"{tmp_path}/mine/new")
    assert asked[0][0] == f"{tmp_path}/mine/new"


def left(name: str, place: str = VOLUME_URL, size: int = 1_000_000) -> dict[str, Any]:
    """Return the result of a run that has left its list and a file."""
    folder = f"{place}/outputs/{name}/{name}-1"
    files = {
        each: {"url": f"{folder}/{each}", "sha256": "0", "bytes": size}
        for each in ("artifacts.json", "model.pt")
    }
    return {"state": "Succeeded", "run_id": f"{name}-1", "artifacts": files}


def test_a_job_that_is_gone_is_read_where_its_files_are_by_any_image_of_slipways() -> None:
    remembered("old-1", left("old"), job="old")
    remembered("mine-1", left("mine"), job="mine")
    state = StackState("k", "slipway-jobs", {"mine": job({})}, trainer="trainer:2")
    found, result = fetch.find("dev", state, "old")
    assert folder_of(found, result) == f"{VOLUME_URL}/outputs/old/old-1"
    pod = kept.reader_pod(found, "trainer:2")
    assert "slipway-kept" in str(pod["spec"]["volumes"])
    assert pod["metadata"]["namespace"] == "slipway-jobs"
    with pytest.raises(CommandError, match=r"Jobs in dev: mine\. Former jobs .*: old\.$"):
        fetch.find("dev", state, "")


def test_what_goes_with_a_stack_is_its_jobs_files_and_mlflows_runs() -> None:
    """Also what a program may have kept itself or a run before a failure; not what is elsewhere."""
    remembered("old-1", left("old"), job="old")
    jobs = {
        "mine": job(left("mine")),
        "own": job({"run_id": "own-1"}, **OWN),
        "broken": job({"state": "Failed", "run_id": "mine-2", "last_succeeded": "mine-1"}),
        "nothing": FAILED,
        "elsewhere": job(left("mine", "s3://bucket"), outputs="s3://bucket"),
    }
    state = StackState("k", "slipway-jobs", jobs, trainer="trainer:2")
    tracked = {"deployment": {"resources": [{"type": tokens.TRACKING_READY}]}}
    runs, words = fetch.lost_with("dev", state, tracked)
    failed = {("broken", "succeeded"), ("broken", ""), ("nothing", "")}
    assert {*runs} == {("old", ""), ("mine", ""), ("own", ""), *failed}
    assert words == "the files of 6 runs, 4.0 MB or more; MLflow's runs"
    assert fetch.lost_with("other", StackState(), {}) == ([], "")


def test_an_empty_run_does_not_end_down(reader: Reader, known: Known, tmp_path: Path) -> None:
    known(job({"run_id": "mine-2"}, **OWN))
    reader(kept.FetchError("FileNotFoundError: there are no files under file:///…"))
    assert fetch.fetch("dev", "mine", str(tmp_path)) == 1
