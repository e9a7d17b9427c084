"""`make logs` puts all ranks' lines in one order, and says what there is when it finds none."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from jobs.api.follower import Container
from jobs.api.lines import Cursor, Line
from jobs.model.pytorchjob import Topology
from jobs.observe.replica import containers
from jobs.records import archive
from jobs.records.archive import Run
from jobs.records.recording import Recording
from jobs.result import RunResult
from scripts.cli.runs.cluster_logs import find
from scripts.cli.runs.log_lines import Printer, print_runs
from scripts.cli.runs.logs import archived, show
from scripts.cli.state import JobState, StackState
from scripts.cli.terminal import CommandError
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_objects import RUNNING, ended, job, pod, waiting
from tests.unit.scripts.cli.kept_state import resource

JOB = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs/mine"
PODS = "/api/v1/namespaces/slipway-jobs/pods"
RUN = {"slipway.dev/run": "mine-2"}


def line(second: int, text: str) -> Line:
    return Line(f"2026-01-01T00:00:{second:02}.000000000Z", text)


def keep(
    run_id: str,
    *logs: tuple[int, str, list[Line]],
    topology: Topology | None = None,
    is_complete: bool = False,
) -> None:
    """Put logs into the archive: of which replica, of which container, and what."""
    topology = Topology(2) if topology is None else topology
    with Recording(archive.of_job("dev", "mine").run(run_id), topology, pytest.fail) as recording:
        for replica, id_, lines in logs:
            container = Container(replica, f"mine-{replica}", id_, ended=True, previous=False)
            recording.begin(container)
            recording.take(container, lines)
        if is_complete:
            recording.seal()


def labelled(there: dict[str, Any]) -> dict[str, Any]:
    """Return an object as one of the run."""
    there["metadata"].setdefault("labels", {}).update(RUN)
    return there


def listed(*pods: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "PodList", "items": [*pods], "metadata": {}}


@pytest.fixture(name="api")
def _api() -> Iterator[FakeApi]:
    """A cluster with a job of two ranks that has succeeded."""
    with served(FakeApi()) as api:
        api.says("GET", JOB, labelled(job("Succeeded")))
        states = [ended(0, container=f"containerd://c{rank}") for rank in (0, 1)]
        done = [labelled(pod(rank, state=states[rank], phase="Succeeded")) for rank in (0, 1)]
        api.says("GET", PODS, listed(*done))
        for each in done:
            [status] = each["status"]["containerStatuses"]
            status["containerID"] = status["state"]["terminated"]["containerID"]
            # What the client insists on, and nobody here looks at.
            status |= {"imageID": "", "ready": False}
            api.says("GET", f"{PODS}/{each['metadata']['name']}", each)
        yield api


def state(api: FakeApi | None = None, **jobs: Any) -> StackState:
    return StackState(None if api is None else api.kubeconfig, "slipway-jobs", jobs)


def shown(
    capsys: pytest.CaptureFixture[str], there: StackState, rank: int | None = None
) -> list[str]:
    with mock.patch("scripts.cli.runs.logs.read_state", return_value=there):
        show("dev", "mine", rank, "1")
    said = capsys.readouterr()
    return [*said.out.splitlines(), *said.err.splitlines()]


def test_kept_and_the_pods_are_one_log(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    keep("mine-2", (0, "c0", [line(1, "kept"), line(3, "kept, too")]))
    logs = {
        "mine-master-0": [line(1, "kept"), line(3, "kept, too"), line(5, "new")],
        "mine-worker-0": [line(2, "new as well"), line(4, "")],
    }
    for name, lines in logs.items():
        api.says("GET", f"{PODS}/{name}/log", "".join(f"{each}\n" for each in lines))
    assert shown(capsys, state(api)) == [
        "[rank 0] kept",
        "[rank 1] new as well",
        "[rank 0] kept, too",
        "[rank 1] ",
        "[rank 0] new",
    ]
    assert shown(capsys, state(api), rank=0) == ["kept", "kept, too", "new"]
    [since] = {asked for _, asked, _ in api.asked if "master-0/log" in asked and "since" in asked}
    assert "sinceTime=2026-01-01T00%3A00%3A02Z" in since


def test_the_archive_is_read_attempt_after_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    keep("mine-1", (0, "a", [line(1, "first")]), (1, "b", [line(2, "second")]))
    keep("mine-2", (0, "c", [line(3, "third")]), (0, "d", [line(4, "fourth")]))
    assert shown(capsys, state()) == [
        "[rank 0] first",
        "[rank 1] second",
        "[rank 0] third",
        "[rank 0] fourth",
        "--- next attempt: mine-2",
        "--- rank 0 was restarted",
    ]


def ended_state(run_id: str, **fields: Any) -> StackState:
    """What is known of a run that has ended, without the secrets."""
    return state(mine=JobState("mine", {}, RunResult(state="Succeeded", run_id=run_id), **fields))


def test_a_run_kept_to_its_end_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    def read(_stack: str, *, secrets: bool = False, **_: str) -> StackState:
        return pytest.fail("asked for secrets") if secrets else ended_state("mine-1")

    keep("mine-1", (0, "a", [line(1, "kept")]), is_complete=True)
    with mock.patch("scripts.cli.runs.logs.read_state", read):
        show("dev", "mine", None, "1")
    assert capsys.readouterr().out == "[rank 0] kept\n"


@pytest.mark.parametrize(
    ("there", "is_complete"),
    [
        (ended_state("mine-1"), False),
        (ended_state("mine-2"), True),
        (ended_state("mine-1", operation="creating"), True),
    ],
)
def test_a_run_not_kept_to_its_end_needs_the_cluster(there: StackState, is_complete: bool) -> None:
    keep("mine-1", (0, "a", [line(1, "kept")]), is_complete=is_complete)
    assert archived("dev", there, "mine", None) is None


def test_a_replaced_runs_logs_stay_out(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    keep("mine-1", (0, "a", [line(1, "of old")]))
    for name in ("mine-master-0", "mine-worker-0"):
        api.says("GET", f"{PODS}/{name}/log", f"{line(5, 'new')}\n")
    assert shown(capsys, state(api)) == ["[rank 0] new", "[rank 1] new"]


@pytest.mark.parametrize(
    ("topology", "labels"),
    [
        (Topology(2), ["rank 0", "rank 1"]),
        (Topology(2, processes=2), ["rank 0-1", "rank 2-3"]),
        (Topology(2, elastic=True), ["worker 0", "worker 1"]),
    ],
)
def test_a_line_begins_with_the_ranks_whose_log_it_is(
    topology: Topology, labels: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [(number, f"c{number}", [line(number, "x")]) for number in (0, 1)]
    keep("mine-1", *logs, topology=topology)
    assert shown(capsys, state()) == [f"[{label}] x" for label in labels]


def test_a_rank_among_several_is_found_in_its_replica() -> None:
    keep("mine-1", (0, "a", []), topology=Topology(2, processes=2))
    assert find("dev", state(), "mine", 3).names == {1: "rank 2-3"}


@pytest.mark.parametrize(
    ("topology", "rank", "message"),
    [
        (Topology(3), 3, "Job mine has no rank 3. It has ranks 0 to 2."),
        (Topology(1), 1, "Job mine has no rank 1. It has only rank 0."),
        (Topology(2, elastic=True), 2, "Job mine has no worker 2. It has workers 0 to 1."),
    ],
)
def test_an_unknown_rank_is_named_with_others(topology: Topology, rank: int, message: str) -> None:
    keep("mine-1", (0, "a", []), topology=topology)
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        find("dev", state(), "mine", rank)


def test_an_unknown_job_is_named_with_those_of_state_and_archive(api: FakeApi) -> None:
    keep("mine-1", (0, "a", []))
    unknown = r"^There is no job 'mime'. Did you mean mine\? Jobs in dev: declared, mine.$"
    with pytest.raises(CommandError, match=unknown):
        find("dev", state(api, declared=object()), "mime", None)
    with pytest.raises(CommandError, match=r"^Specify the job: JOB=NAME. Jobs in dev: declared"):
        find("dev", state(api, declared=object()), "", None)


def test_a_silent_cluster_is_named_without_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.cli.runs.cluster_logs._ANSWER_SECONDS", 0)
    with served(FakeApi()) as gone:
        kubeconfig = gone.kubeconfig
    there = StackState.from_export(export(kubeconfig))
    with pytest.raises(CommandError, match="its cluster is not responding"):
        find("dev", there, "mine", None)
    keep("mine-1", (0, "a", [line(1, "x")]))
    assert find("dev", there, "mine", None).api is None


def test_logs_of_an_unsubmitted_job_refer_to_make_results() -> None:
    with pytest.raises(CommandError, match="see `make results STACK=kind`"):
        find("kind", StackState(), "mine", None, ["mine"])


def test_a_stack_that_is_not_there_has_no_logs() -> None:
    with pytest.raises(CommandError, match="`make up STACK=dev` creates one"):
        show("dev", "mine", None, "1")


@pytest.mark.parametrize("again", [0, 1, 3])
def test_what_was_kept_meanwhile_is_shown_once(again: int, tmp_path: Path) -> None:
    everything = [line(second, str(second)) for second in range(4)]
    rest = everything if again < 3 else [*everything[:2], everything[3]]
    whose = Container(0, "mine-0", "a", ended=True, previous=False)
    for number, (kept, fetched, shown) in enumerate(
        [(everything, everything[again:2], everything), (everything[:2], everything[again:], rest)]
    ):
        runs = [Run(tmp_path / f"{number}-{part}" / "mine-1") for part in ("kept", "fetched")]
        for run, lines in zip(runs, (kept, fetched), strict=True):
            with Recording(run, Topology(1), pytest.fail) as recording:
                recording.begin(whose)
                recording.take(whose, lines)
        out, cursors = io.StringIO(), dict[str, Cursor]()
        print_runs(Printer({0: "rank 0"}, raw=True, out=out), runs, cursors)
        assert out.getvalue().split() == [each.text for each in shown]
        assert cursors == {"a": Cursor(everything[-1].stamp, 1)}


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "deleted"])
def test_a_run_is_followed_to_its_end_in_the_order_of_time(
    end: str, api: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1's third line comes in a later round than rank 0's fourth, and is older."""
    monkeypatch.setattr("scripts.cli.runs.cluster_logs._POLL_SECONDS", 0.01)
    rounds = [
        {},  # while the job is looked for
        {"mine-master-0": [1], "mine-worker-0": [2]},
        {"mine-master-0": [1, 4], "mine-worker-0": [2]},
        {"mine-master-0": [1, 4], "mine-worker-0": [2, 3, 5]},
        {"mine-master-0": [1, 4, 6], "mine-worker-0": [2, 3, 5]},
    ]
    done = api.answers["GET", PODS]
    running = [labelled(pod(rank, state=RUNNING)) for rank in (0, 1)]
    asked: list[int] = []

    def now() -> int:
        return min(len(asked), len(rounds)) - 1

    def job_now(_body: Any) -> tuple[int, Any]:
        asked.append(len(asked))
        # The first one finds the job.
        if len(asked) < len(rounds):
            return 200, labelled(job("Running"))
        return 404 if end == "deleted" else 200, labelled(job(end))

    def pods_now(body: Any) -> tuple[int, Any]:
        return (200, listed(*running)) if len(asked) < len(rounds) else done(body)

    api.answers["GET", JOB] = job_now
    api.answers["GET", PODS] = pods_now
    for number, each in enumerate(running):
        name = each["metadata"]["name"]
        [status] = each["status"]["containerStatuses"]
        status |= {"containerID": f"containerd://c{number}", "imageID": "", "ready": True}

        def log(_body: Any, name: str = name) -> tuple[int, Any]:
            lines = [line(second, str(second)) for second in rounds[now()][name]]
            return 200, "".join(f"{each}\n" for each in lines)

        api.answers["GET", f"{PODS}/{name}/log"] = log
    assert shown(capsys, state(api)) == [
        "[rank 0] 1",
        "[rank 1] 2",
        "[rank 1] 3",
        "[rank 0] 4",
        "[rank 1] 5",
        "[rank 0] 6",
    ]


def test_names_are_colored_in_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {0: "rank 0", 10: "rank 10"}

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = {0: "[rank 0]  ", 10: "[rank 10] "}
    assert Printer(names, raw=False, out=io.StringIO()).labels == plain
    colored = Printer(names, raw=False, out=Terminal()).labels[0]
    assert colored.startswith("\x1b[")
    assert "[rank 0]" in colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert Printer(names, raw=False, out=Terminal()).labels == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[rank1]: Traceback:", "[rank 1] Traceback:"),
        ("[rank1]:   File", "[rank 1]   File"),
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


def export(kubeconfig: str) -> dict[str, Any]:
    inputs = {"namespace": "slipway-jobs", "job": {"workers": 0}}
    outputs = {"result": {"state": "Succeeded"}}
    run = resource("slipway:jobs:PyTorchJob", "mine", inputs=inputs, outputs=outputs)
    known = {"kubeconfig": {**SECRET, "plaintext": json.dumps(kubeconfig)}}
    cluster = resource("slipway:clusters:Embedded", "dev", outputs=known)
    return {"deployment": {"resources": [cluster, run]}}


@pytest.mark.parametrize(
    ("outputs", "kubeconfig"),
    [
        ({"kubeconfig": "plain"}, "plain"),
        ({"kubeconfig": {**SECRET, "plaintext": json.dumps("a\nb")}}, "a\nb"),
        ({"kubeconfig": {**SECRET, "ciphertext": "v1:x"}}, None),
        ({}, None),
    ],
)
def test_the_kubeconfig_is_the_clusters(outputs: dict[str, Any], kubeconfig: str | None) -> None:
    resources = [{"type": "a", "urn": "::a", "outputs": outputs}]
    assert StackState.from_export({"deployment": {"resources": resources}}).kubeconfig == kubeconfig
    assert StackState.from_export({"deployment": {"resources": None}}).kubeconfig is None


def test_containers_of_others_and_without_a_replica_are_not_this_runs(api: FakeApi) -> None:
    target = find("dev", state(api), "mine", None)
    other = labelled(pod(0, state=RUNNING))
    other["metadata"]["labels"] = other["metadata"]["labels"] | {"slipway.dev/run": "mine-9"}
    foreign = labelled(pod(0, state=RUNNING))
    del foreign["metadata"]["ownerReferences"]
    odd = labelled(pod(0, state=RUNNING))
    odd["metadata"]["labels"] |= {"training.kubeflow.org/replica-index": "zz"}
    mine = [labelled(pod(1, state=RUNNING)), labelled(pod(0, state=waiting("x")))]
    api.says("GET", PODS, listed(other, foreign, odd, *mine))
    assert target.api is not None
    found = containers(target.api.pods(), target.topology, target.run_id)
    assert [each.pod for each in found] == ["mine-worker-0"]


def test_a_namespace_that_the_stack_has_not_made_is_known_by_the_gate_of_its_operator() -> None:
    inputs = {"jobNamespace": "team-a"}
    ready = resource("slipway:infra:OperatorReady", "training-operator", inputs=inputs)
    assert StackState.from_export({"deployment": {"resources": [ready]}}).namespace == "team-a"
