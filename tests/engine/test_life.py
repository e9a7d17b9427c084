"""A stack's life as a person has it: the commands of README.md, on a copy of the checkout.

The order matters: the last tests kill the cluster's parts, which leaves warnings in its events.
"""

import json
import os
import signal
import time
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest

from core import toolchain
from tests import readme
from tests.engine.footprint import Footprint
from tests.engine.procfs import Process
from tests.engine.pytorchjob_stack import Jobs
from tests.engine.stack import UP_SECONDS, LiveStack
from tests.engine.test_ports import NOBODY, answering, guarded_ports

RANKS = 4
COMPONENTS = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kubelet", "kube-proxy", "containerd", "supervisord"),
)


def test_make_up_trains_mnist_on_every_sample_with_four_ranks(live_stack: LiveStack) -> None:
    result = live_stack.job("mnist-gloo")
    assert result["state"] == "Succeeded", result
    assert result["accuracy"] >= 0.97
    assert result["epoch_accuracies"] == [result["accuracy"]]
    assert result["samples_seen"] == 60_000
    assert (result["world_size"], result["backend"]) == (RANKS, "gloo")
    assert result["exit_codes"] == {str(rank): 0 for rank in range(RANKS)}
    took = datetime.fromisoformat(result["completed"]) - datetime.fromisoformat(result["started"])
    assert took.total_seconds() == pytest.approx(result["duration_seconds"], abs=1)


def test_outputs_and_make_logs_match_what_the_ranks_wrote(live_stack: LiveStack) -> None:
    result, events = live_stack.job("mnist-gloo"), Jobs(live_stack.kubeconfig).events("mnist-gloo")
    lines = live_stack.run("make -s logs JOB=mnist-gloo").output.splitlines()
    # Each begins with whose it is: [rank 0].
    shown = [line.partition("] ")[2] for line in lines if line.startswith("[rank ")]
    printed = [json.loads(text) for text in shown if text.startswith("{")]
    assert sorted(map(json.dumps, printed)) == sorted(map(json.dumps, events))
    for kind, told in (("started", ("world_size", "backend")), ("epoch", ("accuracy", "loss"))):
        of_kind = [event for event in events if event["event"] == kind]
        assert sorted(event["rank"] for event in of_kind) == list(range(RANKS))
        for key in told:
            assert {event[key] for event in of_kind} == {result[key]}
    samples = [event["samples"] for event in events if event["event"] == "epoch"]
    assert sum(samples) == result["samples_seen"]


def test_make_fetch_copies_what_the_job_left_and_make_results_says_so(
    live_stack: LiveStack, tmp_path: Path
) -> None:
    told = live_stack.run("make results JOB=mnist-gloo").output
    assert "make fetch JOB=mnist-gloo" in told
    live_stack.run(f"make fetch JOB=mnist-gloo TO={tmp_path}/new")
    left = live_stack.job("mnist-gloo")["artifacts"]
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("new/*")}
    assert found == {name: each["sha256"] for name, each in left.items()}
    assert {"mnist_cnn.pt", "accuracies.json"} <= found.keys()


def test_the_report_and_the_comparison_have_the_run_and_what_trained_it(
    live_stack: LiveStack, tmp_path: Path
) -> None:
    run_id = live_stack.job("mnist-gloo")["run_id"]
    live_stack.run(f"make report TO={tmp_path}/report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count(run_id) > 1
    assert f"git checkout {live_stack.run('git rev-parse HEAD').text.strip()}" in page
    for shown in ("Loss of each rank", "Running: PyTorchJob mnist-gloo is running", "baseline"):
        assert shown in page
    assert run_id in live_stack.run("make compare JOB=mnist-gloo").output


def test_git_sees_nothing_of_what_make_up_made(live_stack: LiveStack) -> None:
    assert live_stack.run("git status --porcelain").text == ""


def test_the_kubeconfig_is_a_secret(live_stack: LiveStack) -> None:
    assert "client-key-data" in live_stack.kubeconfig.read_text()
    assert "client-key-data" not in live_stack.pulumi("stack output --json")
    kept = [file.read_text() for file in live_stack.backend.rglob("*") if file.is_file()]
    assert any("slipway:clusters:Embedded" in text for text in kept)
    assert not any("client-key-data" in text for text in kept)


def test_a_second_make_up_trains_nothing_and_no_port_of_it_answers_another_user(
    live_stack: LiveStack,
) -> None:
    """Whichever the engine, the language host and the plugins open until its end."""
    before, result = live_stack.uids(), live_stack.job("mnist-gloo")
    again = live_stack.scratch.start("make up")
    roots: dict[int, list[int]] = {}
    deadline = time.monotonic() + UP_SECONDS
    while again.poll() is None:
        assert time.monotonic() < deadline
        for port in guarded_ports() - roots.keys():
            assert answering([port], (), NOBODY) == []
            roots[port] = answering([port], (), 0)
    assert again.returncode == 0
    assert len(list(filter(None, roots.values()))) > 4
    scratch = live_stack.scratch
    assert_nothing_changed(scratch.output.read_text() + scratch.errors.read_text())
    assert live_stack.uids() == before
    assert live_stack.job("mnist-gloo") == result


def test_the_commands_by_hand_work(live_stack: LiveStack) -> None:
    before = live_stack.uids()
    by_hand = readme.block("By hand")
    assert "pulumi up" in by_hand
    # Without a terminal there is nobody to answer "yes" to the preview.
    finished = live_stack.run(f"set -e\nexport PULUMI_SKIP_CONFIRMATIONS=true\n{by_hand}")
    assert_nothing_changed(finished.text)
    assert live_stack.uids() == before


def test_a_cluster_that_cannot_be_repaired_gives_its_own_reason(
    live_stack: LiveStack, tmp_path: Path
) -> None:
    """The engine does not go on to what depends on it, and panic."""
    tools = json.loads(toolchain.record().read_text())
    del tools["tools"]["runc"]
    (tmp_path / "slipway").mkdir()
    (tmp_path / "slipway/toolchain.json").write_text(json.dumps(tools))
    update = f"XDG_CACHE_HOME={tmp_path} pulumi up --yes --skip-preview --stack dev"
    failed = live_stack.attempt(f'eval "$(make -s env)"; {update}')
    assert failed.code != 0
    assert "runc: not among the tools" in failed.text[failed.text.index("Diagnostics:") :]
    assert "panic" not in failed.text
    assert_nothing_changed(live_stack.up().text)


@pytest.mark.long
def test_a_job_changed_by_hand_shows_in_the_preview_by_its_field(live_stack: LiveStack) -> None:
    with live_stack.configured():
        preview = live_stack.run(f"set -e\n{readme.block('The demos')}")
    assert "trains again: epochs 1 → 2" in preview.text, preview
    assert "replace" in preview.text, preview


def test_the_smoke_checks_pass(live_stack: LiveStack) -> None:
    finished = live_stack.run("make smoke")
    assert " passed" in finished.output, finished
    assert "skipped" not in finished.output, finished


def test_the_next_make_up_heals_what_was_killed_and_trains_nothing_again(
    live_stack: LiveStack,
) -> None:
    """Every component, and what watches over them."""
    before = live_stack.uids()
    killed = parts(live_stack, *COMPONENTS)
    for process in killed.values():
        os.kill(process.pid, signal.SIGKILL)
    healed = live_stack.up()
    alive = parts(live_stack, *COMPONENTS)
    assert [name for name in COMPONENTS if alive[name] == killed[name]] == [], healed
    assert live_stack.kubectl("get nodes --no-headers").split()[1] == "Ready"
    assert live_stack.uids() == before


@pytest.mark.long
def test_a_replaced_cluster_gets_its_contents_again_and_trains_nothing(
    live_stack: LiveStack,
) -> None:
    before = live_stack.job("mnist-gloo")
    live_stack.pulumi("up --yes --skip-preview --replace '**slipway:clusters:Embedded**'")
    assert live_stack.job("mnist-gloo") == before
    assert " passed" in live_stack.run("make smoke").output


def parts(stack: LiveStack, *names: str) -> dict[str, Process]:
    """Return the process of the stack's cluster that runs each of these programs."""
    processes = Footprint.take(stack.scratch.directory).processes
    found = {
        name: [p for p in processes if name == p.program or f".{name} " in p.places]
        for name in names
    }
    running = sorted(process.program for process in processes)
    assert all(found.values()), f"not all of {names} are among: {running}"
    return {name: min(each, key=lambda process: process.started) for name, each in found.items()}


def assert_nothing_changed(said: str) -> None:
    """Fail unless the summary of `pulumi up` tells of unchanged resources only."""
    summary = said[said.rindex("Resources:") :]
    assert "unchanged" in summary, said
    for word in ("created", "updated", "replaced", "deleted", "changes."):
        assert word not in summary, said
