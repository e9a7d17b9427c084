"""The environment for Pulumi: tools first, nothing of the user's changed."""

import os
import subprocess
from pathlib import Path

import pytest
from kubernetes.client.rest import should_bypass_proxies

from core.paths import CHECKOUT
from scripts.cli.__main__ import slipway
from scripts.cli.runs import results
from scripts.environment import CLUSTER_ADDRESSES, UNSET, applied, exports, shell


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a #1? state"))


def test_the_tools_come_first(tmp_path: Path) -> None:
    path = exports({"PATH": "/usr/bin:/bin"})["PATH"].split(os.pathsep)
    own = [f"{CHECKOUT}/scripts/bin", f"{CHECKOUT}/.venv/bin", f"{tmp_path}/cache/slipway/bin"]
    assert path == [*own, "/usr/bin", "/bin"]


def test_applying_it_twice_changes_nothing() -> None:
    given = {"PATH": "/bin", "NO_PROXY": "example.com", "HOME": "/root"}
    once = applied(given)
    assert applied(once) == once
    assert once["HOME"] == "/root"


def test_the_backend_and_pulumis_home_are_slipways_own(tmp_path: Path) -> None:
    variables = exports({})
    state = tmp_path / "a #1? state" / "slipway"
    url = f"file://{tmp_path}/a%20%231%3F%20state/slipway/pulumi"
    assert variables["PULUMI_BACKEND_URL"] == url
    assert variables["PULUMI_CONFIG_PASSPHRASE_FILE"] == f"{state}/passphrase"
    assert variables["PULUMI_HOME"] == str(tmp_path / "cache" / "slipway" / "pulumi-home")


@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_the_clusters_addresses_bypass_a_proxy_beside_the_persons_own(variable: str) -> None:
    given = {variable: "example.com,localhost", "https_proxy": "http://proxy:1"}
    variables = applied(given)
    assert variables["no_proxy"] == variables["NO_PROXY"]
    addresses = variables["no_proxy"].split(",")
    assert addresses[:2] == ["example.com", "localhost"]
    assert set(CLUSTER_ADDRESSES) <= set(addresses)
    assert len(addresses) == len(set(addresses))
    assert variables["https_proxy"] == "http://proxy:1"
    assert variables["PYTHONUTF8"] == "1"


def test_a_shell_that_evaluates_the_lines_has_that_environment() -> None:
    given = {"PATH": os.environ["PATH"], "PULUMI_CONFIG_PASSPHRASE": "x"}
    script = f"{shell(given)}\nenv -0"
    command = ["/bin/sh", "-c", script]
    ran = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)
    expected = applied(given)
    assert {name: variables.get(name) for name in expected} == expected
    assert "PULUMI_CONFIG_PASSPHRASE" not in variables


def test_the_lines_are_nothing_but_exports() -> None:
    lines = shell({}).splitlines()
    count = len(UNSET)
    assert lines[:count] == [f"unset {name}" for name in UNSET]
    assert all(line.startswith("export ") for line in lines[count:])


@pytest.mark.parametrize(
    "name",
    ["PULUMI_DIY_BACKEND_GZIP", "PULUMI_SELF_MANAGED_STATE_GZIP", "PULUMI_CONFIG_PASSPHRASE"],
)
def test_what_would_hide_a_stacks_state_or_its_passphrase_is_dropped(name: str) -> None:
    """A command would take a stack whose state it does not find for one that was destroyed."""
    given = {name: "true", "PATH": "/bin"}
    assert name not in applied(given)
    assert f"unset {name}" in shell(given).splitlines()


def test_asking_a_cluster_bypasses_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    asked: list[bool] = []

    def show(**_: str) -> int:
        asked.append(should_bypass_proxies("https://10.77.3.2:6443", os.environ["no_proxy"]))
        return 0

    monkeypatch.setattr(results, "show", show)
    with pytest.raises(SystemExit, match=r"^0$"):
        slipway.main(["results"])
    assert asked == [True]


@pytest.mark.parametrize(
    "words",
    [
        ["up"], ["preview"], ["rerun", "mine"], ["down"], ["kubeconfig"], ["results"],
        ["logs", "mine"], ["fetch", "mine"], ["ui"], ["report"], ["compare", "mine"], ["smoke"],
    ],
)  # fmt: skip
def test_no_command_takes_a_stack_that_does_not_exist(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", {**os.environ})
    with pytest.raises(SystemExit, match=r"^1$"):
        slipway.main([*words, "--stack=knid"])
    assert "There is no stack 'knid'. Did you mean kind?" in capsys.readouterr().err
