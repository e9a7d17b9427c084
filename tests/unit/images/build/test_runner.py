"""A build's commands, when the kernel is not ready for a container of theirs."""

from pathlib import Path

import pytest

from images.build import runner
from images.build.runner import ATTEMPTS, BUSY, BuildFailed, Runner
from tests.unit.images.objects import Listener


def builder(directory: Path, *, busy: int, says: str = f"Close_Fd {BUSY}") -> Path:
    """A pretended builder that fails some times, saying so, and then succeeds."""
    program = directory / "builder"
    program.write_text(
        f"#!/bin/sh\necho begun >> {directory}/begun\n"
        f'test "$(wc -l < {directory}/begun)" -gt {busy} || {{ echo "{says}" >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    return program


def begun(directory: Path) -> int:
    return len((directory / "begun").read_text().splitlines())


def test_a_container_that_could_not_be_started_yet_is_started_again(tmp_path: Path) -> None:
    program = builder(tmp_path, busy=ATTEMPTS - 1)
    Runner(tmp_path / "log", Listener()).run("building", [str(program)])
    assert begun(tmp_path) == ATTEMPTS


def test_one_that_never_starts_is_given_up_with_the_reason(tmp_path: Path) -> None:
    program = builder(tmp_path, busy=99)
    with pytest.raises(BuildFailed, match=BUSY):
        Runner(tmp_path / "log", Listener()).run("building", [str(program)])
    assert begun(tmp_path) == ATTEMPTS


def test_what_fails_otherwise_is_not_begun_again(tmp_path: Path) -> None:
    program = builder(tmp_path, busy=1, says="no such file")
    with pytest.raises(BuildFailed, match="no such file"):
        Runner(tmp_path / "log", Listener()).run("building", [str(program)])
    assert begun(tmp_path) == 1


def test_the_row_shows_the_latest_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_PAUSE", 0.05)
    listener = Listener()
    program = "echo STEP 1/2: FROM a; sleep 0.3; echo STEP 2/2: RUN b; sleep 0.3; seq 9999; sleep 1"
    Runner(tmp_path / "log", listener).run("building", ["sh", "-c", program])
    shown = list(dict.fromkeys(listener.shown))
    assert shown[-2:] == ["building: STEP 1/2: FROM a", "building: STEP 2/2: RUN b"]


def test_a_proxys_login_is_not_in_the_log(tmp_path: Path) -> None:
    """Also where a step has printed it, and in what a failure says."""
    variables = {"https_proxy": "http://me:s3cret@proxy:3128", "no_proxy": "here"}
    log = tmp_path / "log"
    with pytest.raises(BuildFailed, match=r"http://\*\*\*@proxy:3128") as failed:
        Runner(log, Listener(), variables).run(
            "building", ["sh", "-c", "env; echo $https_proxy; exit 1"]
        )
    assert "s3cret" not in f"{failed.value}{log.read_text()}"


@pytest.mark.parametrize("address", ["http://me:pw@proxy:3128", "me:pw@proxy:3128"])
def test_a_login_is_found_in_any_address(address: str) -> None:
    assert runner.logins({"HTTP_PROXY": address, "PATH": "/a@b"}) == {"me:pw"}
    assert runner.logins({"HTTP_PROXY": "http://proxy:3128", "no_proxy": "a,b"}) == set()
