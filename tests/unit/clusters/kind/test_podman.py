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
RULES = """\
*filter
:FORWARD ACCEPT [0:0]
:NETAVARK_FORWARD - [0:0]
-A FORWARD --comment "netavark's rules" -j NETAVARK_FORWARD
COMMIT
"""


class Machine:
    """A podman that has containers or none, on a machine without its firewall rules."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.containers = self.rules = ""
        self.calls: list[tuple[str, ...]] = []

    def run(self, *command: str, limit: float = 0) -> str:
        self.calls.append(command)
        return self.rules if command[0].endswith("-save") else self.containers * ("ps" in command)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    (tmp_path / "forwarding").write_text("0\n")
    (tmp_path / "IPv6").write_text("0\n")
    (tmp_path / "instances").write_text("128\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    names = ("forwarding", "IPv6", "instances")
    values = podman._PARAMETERS.values()
    parameters = {tmp_path / name: new for name, new in zip(names, values, strict=True)}
    monkeypatch.setattr(podman, "_PARAMETERS", parameters)
    monkeypatch.setattr(podman, "_INSTANCES", tmp_path / "instances")
    monkeypatch.setattr(podman, "_note", lambda: tmp_path / "record.json")
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
    (machine.directory / "instances").write_text("")
    with pytest.raises(ValueError, match="invalid literal"):
        podman.restore()  # as if it were killed after its first steps: the next one does the rest
    (machine.directory / "instances").write_text("1024\n")
    machine.rules = RULES
    for name in ("forwarding", "IPv6"):
        (machine.directory / name).write_text("1\n")
    podman.restore()
    found = [(machine.directory / name).read_text() for name in ("forwarding", "IPv6", "instances")]
    assert found == [*["1\n" if "forwarding" in stay else "0\n"] * 2, "128\n"]
    deleted = [each[:1] + each[2:5] for each in machine.calls if "--table" in each]
    rules = [("filter", "--delete", "FORWARD"), ("filter", "--delete-chain", "NETAVARK_FORWARD")]
    every = [(program, *rule) for rule in rules for program in ("iptables", "ip6tables")]
    assert deleted == ([] if "rules" in stay else every)
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
    assert podman._note().exists()
    machine.containers = ""
    podman.restore()
    assert (machine.directory / "modules").exists()


def test_the_last_podman_of_all_state_directories_restores_the_machine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs in CI, each with its own: the first to end must not cut off the other's cluster."""
    monkeypatch.setattr(Engine, "problem", lambda _: "none")
    for state in ("one", "another"):
        monkeypatch.setenv("XDG_STATE_HOME", str(machine.directory / state))
        podman.directory()
        podman.prepare()
        (machine.directory / "forwarding").write_text("1\n")
        machine.rules = RULES
    for state, forwarding in (("one", "1\n"), ("another", "0\n")):
        monkeypatch.setenv("XDG_STATE_HOME", str(machine.directory / state))
        podman.restore()
        assert (machine.directory / "forwarding").read_text() == forwarding
        assert any("--delete" in each for each in machine.calls) == (state == "another")


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
