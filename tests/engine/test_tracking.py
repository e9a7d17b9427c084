"""A tracked run as a person sees it: `make up` with MLflow in the cluster, and `make ui`.

It comes last on the stack that other tests share, and leaves other jobs on it.
"""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.browser.chromium import Tab, opened
from tests.engine.awaiting import await_true
from tests.engine.procfs import everyone
from tests.engine.stack import LiveStack

pytestmark = pytest.mark.long
RANKS = 4
_START_SECONDS = 120
_PICTURE = os.environ.get("SLIPWAY_PICTURE")
"""Where the page of the run is to be drawn: docs/mlflow.png has come from there."""
BRIEF = {"args": ["--limit-train", "3000", "--limit-test", "500"], "minAccuracy": 0.1}
JOB = BRIEF if _PICTURE is None else {"epochs": 2}


@dataclass(frozen=True)
class Ui:
    """What `make ui` has printed, and the server behind it."""

    printed: str
    port: int

    @property
    def address(self) -> str:
        (found,) = re.findall(r"http://localhost:\S+", self.printed)
        return str(found)

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """Return MLflow's answer to a GET, or to a POST where it has a body."""
        address = f"http://localhost:{self.port}/api/2.0/mlflow/{path}"
        method = "POST" if body else "GET"
        answer = requests.request(method, address, json=body or None, timeout=30)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture(scope="module")
def tracked(live_stack: LiveStack) -> Iterator[LiveStack]:
    """The stack with a tracking server, and a run that was tracked."""
    with live_stack.configured(tracking={"kind": "mlflow"}, jobs={"mnist-gloo": JOB}):
        live_stack.up()
        yield live_stack


@contextmanager
def ui(stack: LiveStack, arguments: str = "") -> Iterator[Ui]:
    """Run `make ui` until the end of the block, and end it as Ctrl-C does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = stack.scratch.start(f"exec make ui PORT={port} {arguments}")
    printed, complained = stack.scratch.output, stack.scratch.errors
    try:
        await_true(
            lambda: "Ctrl-C disconnects" in printed.read_text() or process.poll() is not None,
            _START_SECONDS,
            complained.read_text,
        )
        yield Ui(printed.read_text(), port)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)
    left = [each.places for each in everyone() if "port-forward" in each.places]
    assert [places for places in left if f" {port}:" in places] == []


def test_the_run_is_there_with_the_loss_of_each_rank(tracked: LiveStack) -> None:
    """With `slipway:tracking` each rank's loss is in MLflow's own page, which `make ui` opens."""
    result = tracked.job("mnist-gloo")
    assert result["state"] == "Succeeded", result
    with ui(tracked, "JOB=mnist-gloo") as server:
        assert server.address.partition("/#/")[2] == result["tracking"].partition("/#/")[2]
        experiment = server.ask("experiments/get-by-name?experiment_name=dev/mnist-gloo")
        ids = [experiment["experiment"]["experiment_id"]]
        [run] = server.ask("runs/search", experiment_ids=ids)["runs"]
        assert run["info"]["run_name"] == result["run_id"]
        assert run["info"]["status"] == "FINISHED"
        metrics = {each["key"]: each["value"] for each in run["data"]["metrics"]}
        assert metrics["accuracy"] == pytest.approx(result["accuracy"])
        losses = {name for name in metrics if re.fullmatch(r"(rank_)?loss/rank_\d+", name)}
        assert {int(name[-1]) for name in losses} == set(range(RANKS))
        tags = {each["key"]: each["value"] for each in run["data"]["tags"]}
        assert result["run_id"] in tags.values()
        address = f"http://localhost:{server.port}/api/2.0/mlflow/experiments/get?experiment_id=0"
        attack = requests.get(address, headers={"Host": "attacker.example"}, timeout=30)
        assert attack.status_code == 403, "other sites' pages don't get at it"
        commit = tracked.run("git rev-parse HEAD").output.strip()
        assert any(value.startswith(commit) for value in tags.values()), tags
        with opened(width=1200, height=980) as tab:
            if _PICTURE is not None:
                show_as_a_training(tab, server.address)
            tab.page.goto(server.address)
            tab.page.get_by_text(result["run_id"]).first.wait_for()
            tab.page.get_by_role("tab", name="Model metrics").click()
            tab.page.get_by_placeholder("Search metric charts").fill("^loss/rank")
            for rank in range(RANKS):
                tab.page.get_by_text(f"rank_{rank}", exact=True).first.wait_for()
            assert all(each.startswith(f"http://localhost:{server.port}/") for each in tab.requests)
            if _PICTURE is not None:
                tab.page.wait_for_timeout(2000)  # until the curves are drawn
                tab.page.screenshot(path=Path(_PICTURE))


def show_as_a_training(tab: Tab, address: str) -> None:
    """Have MLflow's page leave out what is for language models."""
    tab.page.goto(address)
    tab.page.get_by_role("button", name="Close").click()
    tab.page.get_by_text("Model training").first.click()
    tab.page.wait_for_timeout(1000)
    tab.page.goto("about:blank")


def test_turning_it_off_leaves_nothing_of_it_and_trains_nothing_again(tracked: LiveStack) -> None:
    """What is added when a job is submitted is no part of what it trains."""
    before = tracked.uids()
    tracked.configure(tracking=None)
    tracked.up()
    assert tracked.uids() == {name: before[name] for name in before if "mlflow" not in name}
    kinds = "deployments,services,persistentvolumeclaims"
    left = tracked.kubectl(f"--namespace slipway-jobs get {kinds} --output name")
    assert re.search("mlflow|slipway-tracking", left) is None
    refused = tracked.attempt("make ui")
    assert refused.code != 0
    assert "slipway:tracking: {kind: mlflow}" in refused.errors
