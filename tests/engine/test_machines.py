"""The embedded cluster on the machines that users have: a fresh Debian, systemd, cgroups v2."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.awaiting import await_true
from tests.engine.machine import USER, Machine

pytestmark = pytest.mark.long

_CUTS = 5  # of six minutes each, on each of two releases
_HUNGRY = """
import subprocess, sys
code = "b = []\\nwhile True: b.append(bytearray(b'x' * 2**24))"
sys.exit(f"its child ended with {subprocess.run([sys.executable, '-c', code]).returncode}")
"""
# Emulated, importing torch takes minutes.
_JOB: dict[str, Any] = {"workers": 1, "startTimeout": 1500}
_MINE = _JOB | {"script": "examples/start/train.py", "require": {"accuracy": {"min": 0.9}}}
_WRITE = """eval "$(make -s env)"
    for number in $(seq 999); do kubectl create configmap {name}-$number --output name; done
"""


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machine(
    request: pytest.FixtureRequest, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    directory = tmp_path_factory.mktemp("machine")
    made = Machine(directory, request.param, root)
    try:
        made.start()
        yield made
    finally:
        made.cut_power()
        (directory / "disk").unlink()


@pytest.fixture(scope="module")
def result(machine: Machine) -> dict[str, Any]:
    """The result of a job of two ranks, trained by the machine's first `make up`."""
    _configure(machine, mine=_MINE)
    machine.run("make up")
    return _result(machine)


def test_who_is_not_root_is_told_at_once_what_needs_no_root(machine: Machine) -> None:
    refused = machine.attempt("make up", USER)
    text = refused.stdout + refused.stderr
    assert refused.rc != 0
    assert "root" in text, text
    assert "minikube" in text, text


def test_a_job_succeeds_on_control_groups_v2_alone(
    machine: Machine, result: dict[str, Any]
) -> None:
    assert result["state"] == "Succeeded"
    assert result["world_size"] == 2
    assert machine.run("stat --file-system --format %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert " passed" in machine.run("make smoke")


@pytest.mark.usefixtures("result")
def test_a_user_who_is_not_root_previews_with_a_kubeconfig(machine: Machine) -> None:
    machine.run(
        'eval "$(make -s env)" && pulumi stack output kubeconfig --show-secrets --stack dev '
        f"> /home/{USER}/config && chown {USER}: /home/{USER}/config"
    )
    images = dict.fromkeys(("trainer", "trainingOperator", "tcpWait"), "registry.example/image:1")
    cluster = {"kind": "kubeconfig", "path": f"/home/{USER}/config", "images": images}
    _configure(machine, USER, cluster, mine=_MINE)
    assert "mine" in machine.run("make preview", USER)


def test_a_job_whose_child_takes_too_much_memory_fails_for_that_reason(
    machine: Machine, result: dict[str, Any]
) -> None:
    machine.run(f"cat > hungry.py << 'END'\n{_HUNGRY}\nEND")
    _configure(machine, mine=_MINE, hungry=_JOB | {"script": "hungry.py", "workers": 0})
    failed = machine.attempt("make up")
    assert failed.rc != 0
    assert "memory" in failed.stdout + failed.stderr, failed
    _configure(machine, mine=_MINE)
    machine.run("make up")
    assert _result(machine) == result


def test_one_make_up_repairs_a_reboot_and_trains_nothing(
    machine: Machine, result: dict[str, Any]
) -> None:
    machine.reboot()
    machine.run("make up")
    assert _result(machine) == result


def test_power_cuts_cost_no_acknowledged_object(
    machine: Machine, result: dict[str, Any], tmp_path: Path
) -> None:
    """While objects are written; one `make up` repairs each, and trains nothing."""
    machine.run("make kubeconfig")
    written = set[str]()
    for cut in range(_CUTS):
        acknowledged = tmp_path / f"{cut}"
        with machine.started(_WRITE.format(name=f"cut-{cut}"), acknowledged):
            await_true(lambda: len(acknowledged.read_text().split()) > 4 + cut)  # noqa: B023
            machine.cut_power()
        written |= set(acknowledged.read_text().split())
        machine.start()
        machine.run("make up")
    found = machine.run('eval "$(make -s env)"; kubectl get configmaps --output name').split()
    assert written <= set(found)
    assert _result(machine) == result


def test_make_down_leaves_nothing(machine: Machine) -> None:
    machine.run("make down")
    assert machine.run("ip netns").strip() == ""
    assert machine.run("ls /run/slipway 2> /dev/null || true").strip() == ""
    assert "slipway" not in machine.run("ls /sys/fs/cgroup; cat /proc/mounts; ip link")


def _configure(
    machine: Machine, user: str = "root", cluster: Any = None, **jobs: dict[str, Any]
) -> None:
    settings = {"slipway:cluster": cluster or {"kind": "embedded"}, "slipway:jobs": jobs}
    # JSON is YAML. Pulumi's salt, which it added to the file, stays.
    lines = f"echo {shlex.quote('config: ' + json.dumps(settings))}"
    salt = "grep --no-messages encryptionsalt Pulumi.dev.yaml"
    machine.run(f"{{ {lines}; {salt}; }} > new; mv new Pulumi.dev.yaml", user)


def _result(machine: Machine) -> dict[str, Any]:
    text = machine.attempt('eval "$(make -s env)" && pulumi stack output jobs --json --stack dev')
    found: dict[str, Any] = json.loads(text.stdout)["mine"]
    return found
