"""A build's commands, when the kernel is not ready for a container of theirs."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from images.build import runner
from images.build.runner import ATTEMPTS, BUSY, BuildFailed, Runner
from tests.unit.images.objects import Listener
from tests.unit.shell_program import shell_program


@pytest.mark.parametrize(
    ("busy", "says", "starts"),
    [(ATTEMPTS - 1, BUSY, ATTEMPTS), (99, BUSY, ATTEMPTS), (1, "no such file", 1)],
    ids=["could not be started yet", "never starts", "fails otherwise"],
)
def test_a_container_that_cannot_be_started_yet_is_started_again(
    tmp_path: Path, busy: int, says: str, starts: int
) -> None:
    """A pretended builder fails some times, saying so, and then succeeds."""
    begun = tmp_path / "begun"
    fails = f"echo Close_Fd {says} >&2; exit 1"
    program = f"echo >> {begun}; [ $(wc -l < {begun}) -gt {busy} ] || {{ {fails}; }}"
    with nullcontext() if busy < starts else pytest.raises(BuildFailed, match=says):
        Runner(tmp_path / "log", Listener()).run("building", ["sh", "-c", program])
    assert len(begun.read_text().splitlines()) == starts


def test_the_row_shows_the_latest_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_PAUSE", 0.05)
    listener = Listener()
    program = "echo STEP 1/2: FROM a; sleep 0.3; echo STEP 2/2: RUN b; sleep 0.3; seq 9999; sleep 1"
    Runner(tmp_path / "log", listener).run("building", ["sh", "-c", program])
    shown = list(dict.fromkeys(listener.shown))
    assert shown[-2:] == ["building: STEP 1/2: FROM a", "building: STEP 2/2: RUN b"]


def test_a_proxys_login_is_not_in_the_log(tmp_path: Path) -> None:
    """Also where a step has printed it, and in what a failure says."""
    variables = {"https_proxy": "http://me:s3cret@proxy:3128", "HTTP_PROXY": "me:pw@other:1"}
    log = tmp_path / "log"
    with pytest.raises(BuildFailed, match=r"http://\*\*\*@proxy:3128") as failed:
        Runner(log, Listener(), variables).run(
            "building", ["sh", "-c", "env; echo $https_proxy $HTTP_PROXY; exit 1"]
        )
    for each in ("s3cret", ":pw@"):
        assert each not in f"{failed.value}{log.read_text()}"


def test_root_in_a_container_may_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it may create no namespaces."""
    monkeypatch.setenv("PATH", str(shell_program(tmp_path / "unshare", "exit 1").parent), ":")
    runner._isolated.cache_clear()
    Runner(tmp_path / "log", Listener()).run("building", ["true"])
    runner._isolated.cache_clear()
