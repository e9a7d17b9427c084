"""A directory and a URL are kept alike while a program writes: what it keeps, and checkpoints."""

import json
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from slipway_trainer.agent.mirror import Mirror
from tests.unit.images.trainer.store import store


class Copied:
    """A directory, and where it is copied to."""

    def __init__(self, tmp_path: Path, scheme: str) -> None:
        self.directory = tmp_path / "outputs"
        self.directory.mkdir()
        self.url = f"{scheme}://{tmp_path}/copies"
        self.mirror = Mirror(self.directory, self.url)

    def write(self, name: str, text: str = "x") -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def files(self) -> dict[str, str]:
        """Return what is at the URL, by name."""
        copies, root = fsspec.url_to_fs(self.url)
        return {path[len(root) + 1 :]: copies.cat_file(path).decode() for path in copies.find(root)}


@pytest.fixture(params=["file", "memory"])
def copied(tmp_path: Path, request: pytest.FixtureRequest) -> Copied:
    return Copied(tmp_path, request.param)


def test_files_are_copied_when_they_have_settled_and_again_when_they_change(copied: Copied) -> None:
    copied.write("logs/a.txt", "first")
    copied.mirror.copy(settled_seconds=60)
    assert copied.files() == {}, "it may still be written"
    copied.mirror.copy(settled_seconds=0)
    assert copied.files() == {"logs/a.txt": "first"}
    copied.write("logs/a.txt", "second")
    assert copied.mirror.unchanged() == set()
    copied.mirror.copy(settled_seconds=0)
    assert copied.files() == {"logs/a.txt": "second"}
    assert copied.mirror.unchanged() == {"logs/a.txt"}


def test_what_the_program_removes_goes_and_what_others_copied_stays(copied: Copied) -> None:
    copies, root = fsspec.url_to_fs(copied.url)
    copies.makedirs(root, exist_ok=True)
    copies.pipe_file(f"{root}/theirs", b"y")
    copied.write("old")
    copied.mirror.copy(settled_seconds=0)
    (copied.directory / "old").unlink()
    for name in (".123.part", ".metadata"):  # an incomplete checkpoint, and a hidden file
        copied.write(name)
    copied.mirror.copy(settled_seconds=0)
    assert copied.files() == {"theirs": "y", ".metadata": "x"}


def test_a_store_that_does_not_answer_is_tried_again_and_warned_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def put_file(own: object, *arguments: str, **options: object) -> None:
        if is_gone:
            raise ConnectionError("no route")
        MemoryFileSystem.put_file(own, *arguments, **options)

    is_gone = True
    store("gone", put_file=put_file)
    copied = Copied(tmp_path, "gone")
    copied.write("a")
    for _ in range(2):
        copied.mirror.copy(settled_seconds=0)
    [warned] = map(json.loads, capsys.readouterr().out.splitlines())
    assert warned["event"] == "warning"
    assert f"not been copied to {copied.url} yet: ConnectionError: no route" in warned["warning"]
    is_gone = False
    copied.mirror.copy(settled_seconds=0)
    assert copied.files() == {"a": "x"}
