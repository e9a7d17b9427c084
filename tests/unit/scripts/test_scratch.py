"""A scratch copy has the checkout's files and nothing of the person's own stacks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.scratch import Scratch


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    """A copy of a git checkout with a tracked, a deleted, an untracked and an ignored file."""
    for name in ("Makefile", "deleted"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("Pulumi.*.yaml\n")
    for words in (("init", "--quiet"), ("add", "--all")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "deleted").unlink()
    (tmp_path / "untracked").touch()
    (tmp_path / "Pulumi.dev.yaml").touch()
    copy = Scratch.copy_of(tmp_path)
    yield copy
    copy.remove()
    assert not copy.directory.exists()


def test_it_has_what_git_does_not_ignore_and_a_clean_status(scratch: Scratch) -> None:
    names = {path.name for path in scratch.checkout.iterdir()} - {".git"}
    assert names == {".gitignore", "Makefile", "untracked"}
    finished = scratch.run("git status --porcelain; echo err >&2; exit 3", 10)
    assert (finished.output, finished.errors, finished.code) == ("", "err\n", 3)


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


def test_a_command_over_its_limit_is_ended_and_its_output_shown(scratch: Scratch) -> None:
    with pytest.raises(TimeoutError, match="halfway"):
        scratch.run("echo halfway; sleep 60", 0.5)
