"""The environment for Pulumi: tools first, nothing of the user's changed."""

import os
import subprocess
from pathlib import Path

import pytest
from kubernetes.client.rest import should_bypass_proxies

from core.paths import CHECKOUT, cache_dir
from scripts.cli.__main__ import slipway
from scripts.cli.runs import results
from scripts.environment import CLUSTER_ADDRESSES, applied, exports, shell

_WITHOUT_A_STACK = {"env", "import", "init", "run"}
_HIDING = {"PULUMI_DIY_BACKEND_GZIP", "PULUMI_SELF_MANAGED_STATE_GZIP", "PULUMI_CONFIG_PASSPHRASE"}
"""A command would take a stack whose state it does not find for one that was destroyed."""


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a #1? state"))


def test_the_tools_come_first_and_backend_and_home_are_slipways_own(tmp_path: Path) -> None:
    variables = exports({"PATH": "/usr/bin:/bin"})
    own = [f"{CHECKOUT}/scripts/bin", f"{CHECKOUT}/.venv/bin", f"{tmp_path}/cache/slipway/bin"]
    assert variables["PATH"].split(os.pathsep) == [*own, "/usr/bin", "/bin"]
    url = f"file://{tmp_path}/a%20%231%3F%20state/slipway/pulumi"
    assert variables["PULUMI_BACKEND_URL"] == url
    passphrase = f"{tmp_path}/a #1? state/slipway/passphrase"
    assert variables["PULUMI_CONFIG_PASSPHRASE_FILE"] == passphrase
    assert variables["PULUMI_HOME"] == f"{tmp_path}/cache/slipway/pulumi-home"


def test_the_starters_of_plugins_find_the_cache_as_everything_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert exports({})["XDG_CACHE_HOME"] == str(cache_dir().parent)


def test_as_many_jobs_train_at_once_as_the_user_or_slipway_says_not_four_a_core() -> None:
    for given, expected in (({}, "256"), ({"PULUMI_PARALLEL": "3"}, "3")):
        assert exports(given)["PULUMI_PARALLEL"] == expected


@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_the_clusters_addresses_bypass_a_proxy_beside_the_persons_own(variable: str) -> None:
    given = {variable: "example.com,localhost", "https_proxy": "http://proxy:1", "HOME": "/root"}
    variables = applied(given)
    assert applied(variables) == variables
    assert variables["no_proxy"] == variables["NO_PROXY"]
    addresses = variables["no_proxy"].split(",")
    assert addresses[:2] == ["example.com", "localhost"]
    assert set(CLUSTER_ADDRESSES) <= set(addresses)
    assert len(addresses) == len(set(addresses))
    unchanged = {"https_proxy": "http://proxy:1", "PYTHONUTF8": "1", "HOME": "/root"}
    assert variables.items() >= unchanged.items()


def test_a_shell_that_evaluates_the_lines_has_it_too_without_what_would_hide_a_state() -> None:
    given = {"PATH": os.environ["PATH"], **dict.fromkeys(_HIDING, "true")}
    command = ["/bin/sh", "-c", f"{shell(given)}\nenv -0"]
    ran = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)
    expected = applied(given)
    assert {name: variables.get(name) for name in expected} == expected
    assert not _HIDING & (variables.keys() | expected.keys())
    kinds = {line.split()[0] for line in shell({}).splitlines()}
    assert kinds == {"unset", "export"}


@pytest.mark.parametrize("command", sorted(slipway.commands.keys() - _WITHOUT_A_STACK))
def test_no_command_takes_a_stack_that_does_not_exist(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ})
    with pytest.raises(SystemExit, match=r"^1$"):
        slipway.main([command, "--stack=knid"])
    assert "There is no stack 'knid'. Did you mean kind?" in capsys.readouterr().err


def test_asking_a_cluster_bypasses_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)

    def show(**_: str) -> int:
        return int(should_bypass_proxies("https://10.77.3.2:6443", os.environ["no_proxy"]))

    monkeypatch.setattr(results, "show", show)
    with pytest.raises(SystemExit, match=r"^1$"):
        slipway.main(["results"])
