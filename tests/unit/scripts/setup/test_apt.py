"""Packages are named before they are installed, and no service starts with them."""

import io
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from scripts.setup import apt
from scripts.setup.steps import StepFailed, Steps
from tests.unit.shell_program import shell_program


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy-rc.d"


def test_services_are_refused_meanwhile_and_allowed_again_after(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a failure or a kill; an administrator's own policy is left alone."""
    started = partial(subprocess.run, [policy, "etcd", "start"], check=True)
    refused = partial(pytest.raises, CalledProcessError, match="status 101")
    with refused(), apt.services_stay_down(policy):
        started()
    assert not policy.exists()
    with subprocess.Popen(["true"]) as gone:
        pass
    killed = apt.services_stay_down(policy)
    with monkeypatch.context() as then:
        then.setattr(os, "getpid", lambda: gone.pid)
        killed.__enter__()
    started()
    with refused(), apt.services_stay_down(policy):
        started()
    assert not policy.exists()
    shell_program(policy, "exit 0")
    with apt.services_stay_down(policy):
        started()
    assert policy.exists()


def test_no_service_is_started_at_the_next_boot(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's etcd would open its port; what was enabled before stays."""
    monkeypatch.setattr(apt, "ENABLED", tmp_path)
    (wanted := tmp_path / "multi-user.target.wants").mkdir()
    (wanted / "ssh.service").symlink_to("/lib/systemd/system/ssh.service")
    with apt.services_stay_down(policy):
        (wanted / "etcd.service").symlink_to("/lib/systemd/system/etcd.service")
    assert [each.name for each in wanted.iterdir()] == ["ssh.service"]


def test_packages_are_named_first(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    ran: list[Sequence[str]] = []

    def record(_steps: Steps, _title: str, command: Sequence[str], **options: Any) -> None:
        assert "runc buildah" in output.getvalue()
        assert policy.exists()
        assert options["variables"]["DEBIAN_FRONTEND"] == "noninteractive"
        ran.append(command)
        assert (options["limit"] == float("inf")) is (command[4] == "install"), "dpkg ends it"

    monkeypatch.setattr(apt, "POLICY", policy)
    monkeypatch.setattr(Steps, "run", record)
    assert apt.install(["runc", "buildah"], Steps(Console(file=output, soft_wrap=True))) is None
    assert [command[4] for command in ran] == ["update", "install"]
    assert ran[1][-2:] == ("runc", "buildah")
    assert "--no-remove" in ran[1]
    assert not policy.exists()


@pytest.mark.parametrize(
    ("user", "program", "obstacle"),
    [
        (0, "/usr/bin/apt-get", "apt failed"),
        (1000, "/usr/bin/apt-get", "only root can install packages"),
        (0, None, "this system does not have apt-get"),
    ],
)
def test_obstacles_to_installing_packages_are_reported(
    user: int, program: str | None, obstacle: str, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "POLICY", policy)
    monkeypatch.setattr(Steps, "run", Mock(side_effect=StepFailed("apt failed")))
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda _name: program)
    assert apt.install(["runc"], Steps(Console(file=io.StringIO()))) == obstacle
