"""`make logs` puts all ranks' lines in one order, and says what there is when it finds none."""

import errno
import io
import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from unittest import mock

import pytest

from jobs.model.pytorchjob import Topology
from jobs.records import archive
from jobs.result import RunResult
from scripts.cli.runs.cluster_logs import find
from scripts.cli.runs.logs import Printer, archived, show
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.archived_run import line
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_objects import RUNNING, ended, job, pod
from tests.unit.scripts.cli.kept_state import resource

JOB = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs/mine"
PODS = "/api/v1/namespaces/slipway-jobs/pods"


def keep(
    run_id: str,
    *logs: tuple[int, str, str],
    topology: Topology | None = None,
    is_complete: bool = False,
) -> None:
    """Put logs into the archive: of which replica, of which container, and what."""
    run = archive.of_job("dev", "mine").run(run_id)
    run.directory.mkdir(parents=True)
    run.describe(Topology(2) if topology is None else topology)
    for replica, container, text in logs:
        run.log(replica, container).path.write_text(text)
    if is_complete:
        (run.directory / archive.COMPLETE).touch()


def state(kubeconfig: str | None = None, **jobs: Any) -> StackState:
    return StackState(kubeconfig, "slipway-jobs", jobs)


def shown(capsys: pytest.CaptureFixture[str], there: StackState) -> list[str]:
    with mock.patch("scripts.cli.runs.logs.read_state", return_value=there):
        show("dev", "mine", None, "1")
    said = capsys.readouterr()
    return [*said.out.splitlines(), *said.err.splitlines()]


def test_the_archive_is_read_attempt_after_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    keep("mine-1", (0, "a", line(1, "first")), (1, "b", line(2, "\r 0%\r50%\rsecond\r")))
    keep("mine-2", (0, "c", line(3, "third")), (0, "d", line(4, "fourth")))
    assert shown(capsys, state()) == [
        "[rank 0] first",
        "[rank 1] second",
        "[rank 0] third",
        "[rank 0] fourth",
        "--- next attempt: mine-2",
        "--- rank 0 was restarted",
    ]


@pytest.mark.parametrize(
    ("latest", "operation", "is_complete", "needs"),
    [("mine-1", None, True, False), ("mine-1", None, False, True), ("mine-2", None, True, True),
     ("mine-1", "creating", True, True)],
)  # fmt: skip
def test_only_a_run_not_kept_to_its_end_needs_the_cluster(
    latest: str, operation: str | None, is_complete: bool, needs: bool
) -> None:
    keep("mine-1", (0, "a", line(1, "kept")), is_complete=is_complete)
    result = RunResult(state="Succeeded", run_id=latest)
    there = state(mine=JobState("mine", {}, result, operation=operation))
    assert (archived("dev", there, "mine", None) is None) is needs


@pytest.mark.parametrize(
    ("topology", "labels", "unknown"),
    [
        (Topology(1), ["rank 0"], "no rank 1. It has only rank 0."),
        (Topology(2), ["rank 0", "rank 1"], "no rank 2. It has ranks 0 to 1."),
        (Topology(2, processes=2), ["rank 0-1", "rank 2-3"], "no rank 4. It has ranks 0 to 3."),
        (Topology(2, elastic=True), ["worker 0", "worker 1"],
         "no worker 2. It has workers 0 to 1."),
    ],
)  # fmt: skip
def test_a_line_begins_with_the_ranks_whose_log_it_is_and_an_unknown_one_is_named_with_others(
    topology: Topology, labels: list[str], unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [(number, f"c{number}", line(number, "x")) for number, _ in enumerate(labels)]
    keep("mine-1", *logs, topology=topology)
    assert shown(capsys, state()) == [f"[{label}] x" for label in labels]
    last = find("dev", state(), "mine", topology.world_size - 1)
    assert last.names == {len(labels) - 1: labels[-1]}
    with pytest.raises(CommandError, match=f"^Job mine has {re.escape(unknown)}$"):
        find("dev", state(), "mine", topology.world_size)


def test_a_silent_cluster_is_named_without_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.cli.runs.cluster_logs._ANSWER_SECONDS", 0)
    with served(FakeApi()) as gone:
        there = state(gone.kubeconfig, mine=JobState("mine", {"namespace": "slipway-jobs"}))
    with pytest.raises(CommandError, match="its cluster can't be used"):
        find("dev", there, "mine", None)
    with pytest.raises(CommandError, match="its cluster can't be used: Invalid kube-config"):
        find("dev", state("a: kubeconfig", **there.jobs), "mine", None)
    keep("mine-1", (0, "a", line(1, "x")))
    assert find("dev", there, "mine", None).api is None


def test_without_a_run_the_next_step_is_named() -> None:
    with pytest.raises(CommandError, match="see `make results STACK=kind`"):
        find("kind", StackState(), "mine", None, ["mine"])
    with pytest.raises(CommandError, match="`make up STACK=none` creates one"):
        show("none", "mine", None, "1")
    keep("mine-1", (0, "a", ""))
    there = StackState("a: kubeconfig", "slipway-jobs", {"declared": JobState("declared", {})})
    unknown = r"^There is no job 'mime'. Did you mean mine\? Jobs in dev: declared, mine.$"
    with pytest.raises(CommandError, match=unknown):
        find("dev", there, "mime", None)
    with pytest.raises(CommandError, match=r"^Specify the job: JOB=NAME. Jobs in dev: declared"):
        find("dev", there, "", None)


@pytest.mark.parametrize(("end", "kept"), [("Failed", "mine-1"), ("deleted", "mine-2")])
def test_a_run_is_followed_to_its_end_in_the_order_of_time(
    end: str, kept: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1's third line comes in a later round than rank 0's fourth, and is older.

    Of what is kept, each of the run's lines comes once, and none of a run that it replaced.
    """
    monkeypatch.setattr("scripts.cli.runs.cluster_logs._POLL_SECONDS", 0.01)
    keep(kept, (0, "c0", line(1, "1" if kept == "mine-2" else "of old")))
    rounds = [([], []), ([1], [2]), ([1, 4], [2]), ([1, 4], [2, 3, 5]), ([1, 4, 6], [2, 3, 5])]
    last, now = len(rounds) - 1, -1

    def job_now(_body: Any) -> tuple[int, Any]:
        nonlocal now
        now = min(now + 1, last)  # the first time to find the job
        there = job("Running" if now < last else end)
        there["metadata"]["labels"] = {"slipway.dev/run": "mine-2"}
        return 404 if now == last and end == "deleted" else 200, there

    def pod_now(rank: int, _body: Any) -> tuple[int, Any]:
        container = f"containerd://c{rank}"
        each = pod(rank, state=RUNNING if now < last else ended(1, container=container))
        each["metadata"]["labels"]["slipway.dev/run"] = "mine-2"
        [status] = each["status"]["containerStatuses"]
        status |= {"containerID": container, "imageID": "", "ready": True}
        return 200, each

    def pods_now(body: Any) -> tuple[int, Any]:
        pods = [pod_now(rank, body)[1] for rank in (0, 1)]
        return 200, {"kind": "PodList", "items": pods, "metadata": {}}

    def log_now(rank: int, _body: Any) -> tuple[int, Any]:
        return 200, "".join(line(each, str(each)) for each in rounds[now][rank])

    with served(FakeApi()) as api:
        api.answers["GET", JOB] = job_now
        api.answers["GET", PODS] = pods_now
        for rank, name in enumerate(("mine-master-0", "mine-worker-0")):
            api.answers["GET", f"{PODS}/{name}"] = partial(pod_now, rank)
            api.answers["GET", f"{PODS}/{name}/log"] = partial(log_now, rank)
        printed = shown(capsys, state(api.kubeconfig))
    ranks = [0, 1, 1, 0, 1, 0]
    assert printed == [f"[rank {rank}] {number}" for number, rank in enumerate(ranks, 1)]


def test_lines_that_tmpdir_has_no_room_for_are_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("jobs.records.recording.private_directory", full)
    with served(FakeApi()) as api:
        api.says("GET", JOB, job("Failed"))
        api.says("GET", PODS, {"kind": "PodList", "items": [], "metadata": {}})
        with pytest.raises(CommandError, match=r"set TMPDIR .* No space"):
            shown(capsys, state(api.kubeconfig))


def test_names_are_colored_in_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def labels(*, isatty: bool) -> Mapping[int, str]:
        out = io.StringIO()
        monkeypatch.setattr(out, "isatty", lambda: isatty)
        return Printer({0: "rank 0", 10: "rank 10"}, raw=False, out=out).labels

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = {0: "[rank 0]  ", 10: "[rank 10] "}
    assert labels(isatty=False) == plain
    assert re.match(r"\x1b\[.*\[rank 0\]", labels(isatty=True)[0])
    monkeypatch.setenv("NO_COLOR", "1")
    assert labels(isatty=True) == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[rank1]: Traceback:", "[rank 1] Traceback:"),
        ("[rank1]:[W1123 12:00] x", "[rank 1] [W1123 12:00] x"),
        ("[rank0]: of another", "[rank 1] [rank0]: of another"),
        ("  indented", "[rank 1]   indented"),
    ],
)
def test_the_rank_that_torch_puts_before_a_line_is_not_shown_twice(text: str, shown: str) -> None:
    out = io.StringIO()
    Printer({1: "rank 1"}, raw=False, out=out).print(text, 1, "run", "a")
    assert out.getvalue() == f"{shown}\n"
    raw = io.StringIO()
    Printer({1: "rank 1"}, raw=True, out=raw).print(text, 1, "run", "a")
    assert raw.getvalue() == f"{text}\n"


SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


@pytest.mark.parametrize(
    ("known", "kubeconfig"),
    [
        ("plain", "plain"),
        ({**SECRET, "plaintext": json.dumps("a\nb")}, "a\nb"),
        ({**SECRET, "ciphertext": "v1:x"}, None),
    ],
)
def test_the_kubeconfig_is_the_clusters(known: Any, kubeconfig: str | None) -> None:
    resources = [{"type": "a", "urn": "::a", "outputs": {"kubeconfig": known}}]
    assert StackState.from_export({"deployment": {"resources": resources}}).kubeconfig == kubeconfig
    assert StackState.from_export({"deployment": {"resources": None}}).kubeconfig is None


def test_a_namespace_that_the_stack_has_not_made_is_known_by_the_gate_of_its_operator() -> None:
    inputs = {"jobNamespace": "team-a"}
    ready = resource("slipway:infra:OperatorReady", "training-operator", inputs=inputs)
    assert StackState.from_export({"deployment": {"resources": [ready]}}).namespace == "team-a"
