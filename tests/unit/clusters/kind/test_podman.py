"""A podman of our own: what it changed on the machine goes with its last container, or stays.

tests/local/test_real_kind.py shows with the real one that all of that goes with its last container.
"""

import subprocess
from pathlib import Path

import pytest

from clusters.cli_clusters import podman
from clusters.cli_clusters.engine import Engine
from core.paths import state_dir
from tests.unit.shell_program import shell_program

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()


class Machine:
    """A podman that has containers or none, on a machine without its firewall rules."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.containers = self.rules = ""
        self.calls: list[tuple[str, ...]] = []

    def run(self, *command: str, limit: float = 0) -> str:
        self.calls.append(command)
        return self.rules if "--list-rules" in command else self.containers * ("ps" in command)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    (tmp_path / "forwarding").write_text("0\n")
    (tmp_path / "instances").write_text("128\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    parameters = {name: (tmp_path / name, new) for name, (_, new) in podman._PARAMETERS.items()}
    monkeypatch.setattr(podman, "_PARAMETERS", parameters)
    monkeypatch.setattr(podman, "_MODULES", tmp_path / "modules")
    monkeypatch.setattr(podman, "run", found.run)
    monkeypatch.setattr("shutil.which", lambda name, **_: name)
    monkeypatch.setattr("core.toolchain.path", lambda _name: packages)
    state_dir().mkdir(parents=True, exist_ok=True)
    return found


@pytest.mark.parametrize(
    ("works", "stay"), [(None, []), ("docker", ["forwarding"]), ("podman", ["forwarding", "rules"])]
)
def test_what_it_changed_goes_back_with_its_last_container_unless_another_engine_needs_it(
    machine: Machine, works: str | None, stay: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "problem", lambda each: None if each.program == works else "none")
    podman.directory()
    podman.prepare()
    assert (machine.directory / "instances").read_text() == "1024"
    machine.rules = "-N NETAVARK-1"
    (machine.directory / "forwarding").write_text("1\n")
    podman.restore()
    found = [(machine.directory / name).read_text() for name in ("forwarding", "instances")]
    assert found == ["1\n" if "forwarding" in stay else "0", "128"]
    assert ("rules" in stay) != any("--delete-chain" in each for each in machine.calls)
    assert not (machine.directory / "modules").exists()
    assert not (state_dir() / "podman").exists()


def test_what_is_only_asked_afterwards_leaves_nothing_and_changes_nothing(machine: Machine) -> None:
    podman.restore()
    assert machine.calls == []
    podman.directory()
    podman.prepare()
    (machine.directory / "instances").write_text("8192\n")  # by somebody else, since then
    podman.restore()
    assert (machine.directory / "instances").read_text() == "8192\n"
    (machine.directory / "forwarding").write_text("1\n")  # and this
    podman.directory()
    podman.restore()
    assert not (state_dir() / "podman").exists()
    assert (machine.directory / "forwarding").read_text() == "1\n"


def test_it_stays_while_another_stack_has_containers_or_it_was_there_before(
    machine: Machine,
) -> None:
    (machine.directory / "modules").mkdir()
    (machine.directory / "forwarding").write_text("1\n")
    podman.directory()
    podman.prepare()
    machine.containers = "0123456789ab\n"
    podman.restore()
    assert not any("reset" in each for each in machine.calls)
    assert (state_dir() / "podman.json").exists()
    machine.containers = ""
    podman.restore()
    assert (machine.directory / "modules").exists()


@pytest.mark.parametrize(
    ("alive", "then"),
    [("", [BOOT]), (BOOT, [BOOT]), ("of another boot\n", [])],  # podman 4.3 leaves it empty
)
def test_a_reboot_clears_what_podman_keeps_only_until_then(
    machine: Machine, alive: str, then: list[str]
) -> None:
    shell_program(machine.directory / "packages" / "usr" / "bin" / "podman", 'echo "$@"')
    program, state = podman.directory() / "podman", podman.storage()
    (state / "run").mkdir()
    (state / "tmp").mkdir()
    (state / "tmp" / "alive").write_text(alive)
    assert subprocess.check_output([program, "ps", "a b"], text=True) == "ps a b\n"
    assert [each.read_text() for each in state.glob("tmp/*")] == then
    assert (state / "run").exists() == bool(then)
