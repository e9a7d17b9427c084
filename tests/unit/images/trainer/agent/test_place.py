"""A program starts among its own files, can write there, and what it leaves is kept or named."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_trainer.agent import place
from slipway_trainer.agent.mirror import Mirror
from slipway_trainer.agent.place import Place


class Pod:
    """A pod's directories; a program is what `write` writes from its working directory."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.work, self.script, self._patch = root / "work", root / "opt/script", patch
        self.outputs = self.work / "outputs"
        self.outputs.mkdir(parents=True)
        patch.setattr(place, "WORK", self.work)
        patch.setattr(place, "SCRIPT", self.script)
        patch.setenv("SLIPWAY_JOB", "mine")
        patch.chdir(self.work)

    def mount(self, **files: str) -> "Pod":
        """Mount a script's files as the kubelet does: links to what lies in a folder beside."""
        data = self.script / "..2026_11_26"
        for name, text in {"train.py": "print(1)", "config/train.yaml": "lr: 1", **files}.items():
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_text(text)
            (data / name).chmod(0o555)
        (self.script / "..data").symlink_to(data.name)
        for each in data.iterdir():
            (self.script / each.name).symlink_to(f"..data/{each.name}")
        return self

    def start(self, keep: list[str] | None = None, directory: str = "") -> Place:
        if keep is not None:
            self._patch.setenv("SLIPWAY_KEEP", json.dumps(keep))
        self._patch.setenv("SLIPWAY_WORKING_DIR", directory)
        found = Place(self.outputs)
        self.program = found.enter(["python3", f"{self.script}/train.py", "--lr", "1"])
        return found

    @property
    def kept(self) -> set[str]:
        paths = (path for path in self.outputs.rglob("*") if path.is_file())
        return {str(path.relative_to(self.outputs)) for path in paths}


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    return Pod(tmp_path, monkeypatch)


def write(*names: str, text: str = "x") -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def test_the_working_directory_may_be_another_one(pod: Pod) -> None:
    """It is a copy of the script's folder that can be changed; without a script the image's."""
    found = Place(pod.outputs)
    assert found.enter(["-m", "module"]) == ["-m", "module"]
    assert Path.cwd() == pod.work
    assert pod.mount().start().left() == {}
    assert pod.program == ["python3", str(pod.work / "src/mine/train.py"), "--lr", "1"]
    assert Path.cwd() == pod.work / "src/mine"
    assert {each.name for each in Path().iterdir()} == {"train.py", "config"}
    assert os.access("train.py", os.X_OK)
    write("config/train.yaml", text="lr: 2")
    pod.start(directory="config")
    assert Path("train.yaml").exists()
    elsewhere = pod.work.parent / "mnt/data"
    found = pod.start(["*.pt"], str(elsewhere))
    assert Path.cwd() == elsewhere
    write("a.pt")
    found.gather()
    assert pod.kept == {"a.pt"}


def test_what_the_patterns_name_is_kept_if_the_program_made_or_changed_it(pod: Pod) -> None:
    found = pod.mount(**{"old.pt": "given", "runs/old": "given", "rewritten.pt": "given"}).start(
        ["*.pt", "runs/**", "../models/*"]
    )
    write("new.pt", "runs/a/b/.hidden", "deep/c.pt", "../models/d", "log.txt", "rewritten.pt")
    write("config/train.yaml", text="lr: 1")  # the same
    found.gather()
    assert pod.kept == {"new.pt", "rewritten.pt", "runs/a/b/.hidden", "models/d"}
    assert found.left().keys() == {"deep/c.pt", "log.txt"}


def test_a_file_that_is_written_again_or_removed_is_so_where_it_is_kept(pod: Pod) -> None:
    """Programs replace files by others of the same name, and have few checkpoints at a time."""
    found = pod.mount().start(["*.pt"])
    write("1.pt", "best.pt")
    found.gather()
    Path("1.pt").unlink()
    write("new", text="better")
    Path("new").rename("best.pt")
    write("2.pt")
    write("config/train.yaml", text="lr: 2")
    found.gather()
    assert pod.kept == {"2.pt", "best.pt"}
    assert (pod.outputs / "best.pt").read_text() == "better"
    found = pod.start(["*.pt"])  # its container was started again
    assert Path("config/train.yaml").read_text() == "lr: 2"
    Path("2.pt").unlink()
    found.gather()
    assert pod.kept == {"best.pt"}


def test_a_link_is_kept_as_the_file_that_it_leads_to(pod: Pod) -> None:
    """One to a folder only where a pattern names it: it may lead to the same files, or itself."""
    found = pod.mount().start(["*.ckpt", "runs/**", "kept/**", "best/*"])
    write("epoch=3.ckpt", "runs/1/a")
    links = {"runs/latest": "1", "runs/all": ".", "kept": str(pod.outputs), "best": "runs/1"}
    for link, target in links.items():
        Path(link).symlink_to(target)
    found.gather()
    Path("last.ckpt").symlink_to("epoch=3.ckpt")
    Path("gone.ckpt").symlink_to("nothing")
    os.mkfifo("pipe.ckpt")
    found.gather()
    assert pod.kept == {"epoch=3.ckpt", "last.ckpt", "runs/1/a", "best/a"}
    assert not (pod.outputs / "last.ckpt").is_symlink()
    write("late.ckpt")
    Mirror(pod.outputs, f"file://{pod.work}/copies", found.gather).copy(settled_seconds=-1)
    assert (pod.work / "copies/late.ckpt").exists(), "also while the program runs"


def test_what_is_lost_is_named_newest_first_without_caches_and_what_was_fetched(pod: Pod) -> None:
    found = pod.mount().start()
    for age, name in enumerate(("checkpoints/best.pt", "a.png", "b.png", "../logs/x", "logs/y")):
        write(name, text="x" * 3_000_000)
        os.utime(name, (1e9 - age, 1e9 - age))
    write("../data/MNIST/raw/x", "__pycache__/a.pyc", ".cache/b", ".lock")
    write("../../outputs/c", "../../inputs/d", "outputs/2026-11-26/train.log")
    found.gather()
    assert pod.kept >= {"outputs/2026-11-26/train.log"}, "without patterns it is kept"
    left = found.left()
    assert [*left] == ["checkpoints/best.pt", "a.png", "b.png", "../logs/x", "logs/y"]
    text = found.warning(left)
    assert "checkpoints/best.pt (3,000,000 bytes), a.png (3,000,000 bytes), b" in text
    assert 'add `keep: ["outputs/**", "checkpoints/**", "*.png", "../logs/**", "logs/**"]`' in text
    assert "make rerun JOB=mine" in text


@given(
    st.lists(
        st.from_regex(r"(\.\./)?([a-z\[*? ]{1,3}/)?[a-z\[*?é]{1,3}(\.pt|\.log)?", fullmatch=True),
        min_size=1,
        max_size=4,
        # What has one name once `../` is left out replaces each other.
        unique_by=lambda name: name.removeprefix("../").partition("/")[0],
    )
)
def test_the_line_to_add_keeps_what_is_named(names: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as root:
        pod = Pod(Path(root), patch)
        found = pod.mount().start()
        write(*names)
        left = found.left()
        line = found.warning(left).partition("`keep: ")[2].partition("` to the job")[0]
        again = pod.start(json.loads(line))
        again.gather()
        assert again.left() == {}
