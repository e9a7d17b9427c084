"""A scratch copy has the checkout's files and nothing of the person's own stacks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.scratch import Scratch


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A git checkout with a tracked, a deleted, an untracked and an ignored file."""
    checkout = tmp_path / "source"
    checkout.mkdir()
    for name, text in {".gitignore": "Pulumi.*.yaml\n", "Makefile": "", "deleted": ""}.items():
        (checkout / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=checkout, check=True)
    subprocess.run(["git", "add", "--all"], cwd=checkout, check=True)
    (checkout / "deleted").unlink()
    (checkout / "untracked").write_text("")
    (checkout / "Pulumi.dev.yaml").write_text("")
    return checkout


@pytest.fixture
def scratch(source: Path) -> Iterator[Scratch]:
    copy = Scratch.copy_of(source)
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
    monkeypatch.setenv("PATH", f"{root}/.venv/bin:/usr/bin:/bin")
    finished = scratch.run(
        'echo "$XDG_STATE_HOME"; echo "$PULUMI_BACKEND_URL$KUBECONFIG"; echo "$PATH"', 10
    )
    assert finished.output == f"{scratch.state_home}\n\n/usr/bin:/bin\n"


def test_output_and_errors_are_kept_apart(scratch: Scratch) -> None:
    finished = scratch.run("echo out; echo err >&2; exit 3", 10)
    assert (finished.output, finished.errors, finished.code) == ("out\n", "err\n", 3)


def test_a_command_over_its_limit_is_ended_and_its_output_shown(scratch: Scratch) -> None:
    with pytest.raises(TimeoutError, match="halfway"):
        scratch.run("echo halfway; sleep 60", 0.5)
