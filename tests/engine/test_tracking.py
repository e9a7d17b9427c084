"""A tracked run as a person sees it: `make up` with MLflow in the cluster, and `make ui`.

It comes last on the stack that other tests share, and leaves other jobs on it.
"""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@pytest.fixture(scope="module")
def tracked(live_stack: LiveStack) -> Iterator[LiveStack]:
    """The stack with a tracking server, and a run that was tracked."""
    with live_stack.configured(tracking={"kind": "mlflow"}, jobs={"mnist-gloo": JOB}):
        live_stack.up()
        yield live_stack


@contextmanager
def ui(stack: LiveStack, job: str) -> Iterator[str]:
    """Yield the address that `make ui` prints; end it as Ctrl-C does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = stack.scratch.start(f"exec make ui PORT={port} JOB={job}")
    printed, complained = stack.scratch.output, stack.scratch.errors
    try:
        await_true(
            lambda: "Ctrl-C disconnects" in printed.read_text() or process.poll() is not None,
            _START_SECONDS,
            complained.read_text,
        )
        (address,) = re.findall(r"http://localhost:\S+", printed.read_text())
        yield str(address)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)
    left = [each.places for each in everyone() if "port-forward" in each.places]
    assert [places for places in left if f" {port}:" in places] == []


def test_the_run_is_there_with_the_loss_of_each_rank(tracked: LiveStack) -> None:
    """In MLflow's page, which `make ui` opens; what else is tracked: trainer/test_tracking.py."""
    result = tracked.job("mnist-gloo")
    with ui(tracked, "mnist-gloo") as address:
        server, _, place = address.partition("/#/")
        assert place == result["tracking"].partition("/#/")[2]
        asked = f"{server}/api/2.0/mlflow/experiments/get?experiment_id=0"
        attack = requests.get(asked, headers={"Host": "attacker.example"}, timeout=30)
        assert attack.status_code == 403, "other sites' pages don't get at it"
        with opened(width=1200, height=980) as tab:
            if _PICTURE is not None:
                show_as_a_training(tab, address)
            tab.page.goto(address)
            tab.page.get_by_text(result["run_id"]).first.wait_for()
            tab.page.get_by_role("tab", name="Model metrics").click()
            tab.page.get_by_placeholder("Search metric charts").fill("^loss/rank")
            for rank in range(RANKS):
                tab.page.get_by_text(f"rank_{rank}", exact=True).first.wait_for()
            assert all(each.startswith(f"{server}/") for each in tab.requests)
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
