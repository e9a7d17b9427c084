"""A scratch copy has the checkout's files and nothing of the person's own stacks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import ci_smoke
from scripts.scratch import Scratch

_MAKEFILE = """\
.PHONY: up smoke down
up smoke down:
\t@echo "$@ $(STACK)" >> ../commands
\t@test ! -e $@-is-broken
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A git checkout with a tracked, a deleted, an untracked and an ignored file."""
    checkout = tmp_path / "source"
    checkout.mkdir()
    for name, text in {
        ".gitignore": "Pulumi.*.yaml\n",
        "Makefile": _MAKEFILE,
        "deleted": "",
    }.items():
        (checkout / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=checkout, check=True)
    subprocess.run(["git", "add", "--all"], cwd=checkout, check=True)
    (checkout / "deleted").unlink()
    (checkout / "untracked").write_text("")
    (checkout / "Pulumi.dev.yaml").write_text("")
    return checkout


@pytest.fixture
def scratch(source: Path) -> Iterator[Scratch]:
    copy = Scratch.of(source)
    yield copy
    copy.remove()
    assert not copy.directory.exists()


def test_it_has_what_git_does_not_ignore(scratch: Scratch) -> None:
    names = {path.name for path in scratch.checkout.iterdir()} - {".git"}
    assert names == {".gitignore", "Makefile", "untracked"}


def test_it_starts_with_a_clean_git_status(scratch: Scratch) -> None:
    assert scratch.run("git status --porcelain", 10).text == ""


def test_commands_see_its_state_and_not_the_caller_s_stack(
    scratch: Scratch, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///somewhere/else")
    monkeypatch.setenv("KUBECONFIG", "/somewhere/else")
    monkeypatch.setenv("PATH", f"{root}/.venv/bin:/usr/bin:/bin:{root}/scripts/offline/bin")
    finished = scratch.run(
        'echo "$XDG_STATE_HOME"; echo "$PULUMI_BACKEND_URL$KUBECONFIG"; echo "$PATH"', 10
    )
    assert finished.output == f"{scratch.state_home}\n\n/usr/bin:/bin\n"


def test_output_and_errors_are_kept_apart(scratch: Scratch) -> None:
    finished = scratch.run("echo out; echo err >&2; exit 3", 10)
    assert (finished.output, finished.errors, finished.code) == ("out\n", "err\n", 3)


def test_a_command_past_its_limit_is_ended_and_what_it_said_is_told(scratch: Scratch) -> None:
    with pytest.raises(TimeoutError, match="halfway"):
        scratch.run("echo halfway; sleep 60", 0.5)


@pytest.mark.parametrize(
    ("broken", "ran"),
    [
        (None, ["up", "smoke", "down"]),
        ("up", ["up", "down"]),
        ("smoke", ["up", "smoke", "down"]),
        ("down", ["up", "smoke", "down"]),
    ],
)
def test_a_smoke_run_always_goes_down_and_passes_only_if_all_steps_did(
    scratch: Scratch, broken: str | None, ran: list[str]
) -> None:
    if broken is not None:
        (scratch.checkout / f"{broken}-is-broken").touch()
    steps = ci_smoke.run_steps(scratch, "kind")
    assert (scratch.directory / "commands").read_text().split("\n") == [
        *(f"{name} kind" for name in ran),
        "",
    ]
    assert ci_smoke.passed(steps) is (broken is None)
    assert [step.name for step in steps] == ran


def test_an_interrupted_smoke_run_goes_down_and_fails(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Scratch.run

    def interrupted(self: Scratch, command: str, limit: float, *, show: bool) -> object:
        if "smoke" in command:
            raise KeyboardInterrupt("SIGTERM")
        return run(self, command, limit, show=show)

    monkeypatch.setattr(Scratch, "run", interrupted)
    steps = ci_smoke.run_steps(scratch, "dev")
    assert [step.name for step in steps] == ["up", "interrupted", "down"]
    assert not ci_smoke.passed(steps)
