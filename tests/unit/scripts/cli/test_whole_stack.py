"""No sequence of commands deletes what is still in the stack's file.

Pulumi is a model here, which does what the documentation says of each of its commands' options: an
`up` leaves out what `--target` and `--exclude` leave out, and deletes what is not declared.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import tokens
from scripts.cli import commands, config, down
from scripts.cli.backend import Cli, exported, state_file
from scripts.cli.init import init
from scripts.cli.runs import results
from scripts.cli.terminal import CommandError
from tests.unit.scripts.cli.kept_state import keep_state, resource

JOBS = ("a", "b", "c")
_PLAIN = {"--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress"}


class Pulumi:
    """The state of stack dev, and how its CLI changes that."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "Pulumi.dev.yaml"

    def run(self, *arguments: str, **_variables: str) -> int:
        """Do what a command of the CLI does."""
        command, *options = arguments
        if command == "preview":
            assert {*options} <= _PLAIN
        elif command == "up":
            pairs = zip(options, [*options[1:], ""], strict=True)
            replaced = {each for one, two in pairs if one == "--replace" for each in (one, two)}
            assert {*options} <= _PLAIN | replaced, "the model does not know what that leaves out"
            self.keep(self.declared())
        elif (command, *options[:1]) == ("stack", "rm"):
            state_file("dev").unlink()
        else:
            assert command == "destroy", command
            self.keep(set())
        return 0

    def query(self, *arguments: str, stdin: str = "") -> str:
        """Do what a short command of the CLI does."""
        assert arguments[:2] == ("stack", "init"), arguments
        self.keep(set())
        return stdin

    def declared(self) -> set[str]:
        return {*yaml.safe_load(self.file.read_text())["config"]["slipway:jobs"]}

    def jobs(self) -> set[str]:
        return {*commands.run_urns(exported("dev"))}

    def keep(self, jobs: set[str]) -> None:
        """Write the state that has these jobs' runs."""
        keep_state(resources=[resource(tokens.PYTORCH_JOB, name) for name in sorted(jobs)])


def nothing(*_given: object, **_options: object) -> Any:
    return 0


@pytest.fixture(autouse=True)
def _around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what is about processes and the machine."""
    monkeypatch.setattr(commands, "recover", nothing)
    monkeypatch.setattr(results, "summarize", nothing)
    for name in ("recover", "_keep_files", "_remove_cluster", "prove"):
        monkeypatch.setattr(down, name, nothing)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Iterator[Pulumi]]:
    """Return a new folder's Pulumi, once for each example."""

    def make() -> Iterator[Pulumi]:
        with TemporaryDirectory() as directory, monkeypatch.context() as patched:
            for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "SLIPWAY_PROJECT"):
                patched.setenv(name, f"{directory}/{name}")
            folder = Path(directory, "SLIPWAY_PROJECT")
            folder.mkdir()
            pulumi = Pulumi(folder)
            patched.setattr(Cli, "run", pulumi.run)
            patched.setattr(Cli, "query", pulumi.query)
            yield pulumi

    return make


STEPS: dict[str, Callable[[str], object]] = {
    "init": lambda _job: init("dev", None, None, None, build=False),
    "up": lambda _job: commands.up("dev"),
    "preview": lambda _job: commands.preview("dev"),
    "rerun": lambda job: commands.rerun("dev", job),
    "down": lambda _job: down.down("dev"),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(sorted(STEPS)), st.sampled_from(JOBS)),
            st.tuples(st.just("edit"), st.sets(st.sampled_from(JOBS), min_size=1)),
        ),
        max_size=12,
    )
)
def test_no_sequence_of_commands_deletes_what_is_still_in_the_file(
    fresh: Callable[[], Iterator[Pulumi]], steps: list[tuple[str, Any]]
) -> None:
    for pulumi in fresh():
        for name, value in steps:
            before = pulumi.jobs()
            if name == "edit":
                jobs = {job: {"script": "train.py"} for job in sorted(value)}
                document = {"slipway:cluster": {"kind": "embedded"}, "slipway:jobs": jobs}
                pulumi.file.write_text(yaml.safe_dump({"config": document}))
                continue
            try:
                STEPS[name](value)
            except CommandError:
                assert pulumi.jobs() == before
            left = before & pulumi.declared() if pulumi.file.exists() else set()
            if name == "down":
                assert pulumi.jobs() == set()
            else:
                assert left <= pulumi.jobs()


def test_the_stacks_file_survives_its_stack(fresh: Callable[[], Iterator[Pulumi]]) -> None:
    """What is declared comes back with the next `up`."""
    for pulumi in fresh():
        STEPS["init"]("")
        STEPS["up"]("")
        assert pulumi.jobs() == {"train"}
        STEPS["down"]("")
        assert config.own("dev").exists()
        STEPS["up"]("")
        assert pulumi.jobs() == {"train"}
