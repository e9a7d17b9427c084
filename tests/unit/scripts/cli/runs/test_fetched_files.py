"""What arrives of a run is checked, file by file, and nothing of the user's is overwritten."""

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from scripts.cli.runs.fetch import Received, receive
from scripts.cli.terminal import CommandError
from slipway.events import Events
from slipway_trainer.agent import artifacts, tar

FILES = {"model.pt": b"weights" * 300_000, "logs/train.txt": b"", "a b.json": b"{}"}


class Run:
    """A run whose files were copied to a place of its own, as the agent copies them."""

    def __init__(self, directory: Path) -> None:
        self.place = directory / "kept"
        self.known = self.leave(FILES)

    def leave(self, files: dict[str, bytes], folder: str = "") -> dict[str, Any]:
        own = self.place.parent / f"own-{folder}"
        for name, content in files.items():
            (own / name).parent.mkdir(parents=True, exist_ok=True)
            (own / name).write_bytes(content)
        return artifacts.sync(own, f"file://{self.place}/{folder}".rstrip("/"), Events(rank=0))

    def fetch(self, to: Path, known: dict[str, Any] | None = None) -> Received:
        stream = io.BytesIO()
        tar.write(f"file://{self.place}", stream)
        stream.seek(0)
        return receive(stream, to, self.known if known is None else known)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "mine/new"


def test_all_files_arrive_with_the_sha256_that_the_result_names(run: Run, to: Path) -> None:
    found = run.fetch(to)
    assert sorted(found.written) == sorted(["artifacts.json", *FILES])
    assert not found.changed
    assert not found.missing
    for name, content in FILES.items():
        assert (to / name).read_bytes() == content
    assert found.bytes > sum(map(len, FILES.values()))
    assert not list(to.rglob("*.part"))


def test_a_result_that_names_some_alone_is_completed_by_the_list(run: Run, to: Path) -> None:
    some = {"artifacts.json": run.known["artifacts.json"]}
    (run.place / "model.pt").write_bytes(b"another")
    found = run.fetch(to, some)
    assert found.changed == ["model.pt"]
    assert not (to / "model.pt").exists()


def test_all_that_is_changed_or_missing_is_named_and_the_rest_arrives(run: Run, to: Path) -> None:
    (run.place / "model.pt").write_bytes(b"weights" * 300_000 + b"!")
    (run.place / "a b.json").unlink()
    found = run.fetch(to)
    assert found.changed == ["model.pt"]
    assert found.missing == ["a b.json"]
    assert found.written == ["artifacts.json", "logs/train.txt"]


def test_a_list_that_is_not_the_results_proves_nothing(run: Run, to: Path) -> None:
    (run.place / "artifacts.json").write_text(json.dumps({"model.pt": {"sha256": "0"}}))
    (run.place / "model.pt").write_bytes(b"forged")
    found = run.fetch(to)
    assert set(found.changed) == {"artifacts.json", "model.pt"}
    assert not (to / "model.pt").exists()


def test_a_second_time_nothing_is_written(run: Run, to: Path) -> None:
    run.fetch(to)
    before = {path: path.stat().st_mtime_ns for path in to.rglob("*")}
    found = run.fetch(to)
    assert found.written == []
    assert sorted(found.present) == sorted(["artifacts.json", *FILES])
    assert {path: path.stat().st_mtime_ns for path in to.rglob("*") if path.is_file()} == {
        path: time for path, time in before.items() if path.is_file()
    }


def test_files_of_the_users_that_differ_are_all_named_and_nothing_is_written(
    run: Run, to: Path
) -> None:
    (to / "logs").mkdir(parents=True)
    (to / "model.pt").write_text("mine")
    (to / "logs/train.txt").write_text("mine, too")
    with pytest.raises(CommandError) as caught:
        run.fetch(to)
    assert all(str(to / name) in str(caught.value) for name in ("model.pt", "logs/train.txt"))
    assert "TO=" in str(caught.value)
    assert (to / "model.pt").read_text() == "mine"
    assert not (to / "a b.json").exists()


def test_files_of_other_replicas_come_with_lists_of_their_own(run: Run, to: Path) -> None:
    run.leave({"trace.json": b"[]"}, "replica-1")
    found = run.fetch(to)
    assert "replica-1/trace.json" in found.written
    (run.place / "replica-1/trace.json").write_bytes(b"[1]")
    assert run.fetch(to.parent / "again").changed == ["replica-1/trace.json"]


def test_without_a_list_all_files_arrive_unchecked_and_yours_stay(run: Run, to: Path) -> None:
    (run.place / "artifacts.json").unlink()
    assert sorted(run.fetch(to, {}).unchecked) == sorted(FILES)
    (to / "model.pt").write_text("mine")
    with pytest.raises(CommandError, match=r"nothing was written:\n.*model.pt"):
        run.fetch(to, {})
    assert (to / "model.pt").read_text() == "mine"


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped"])
def test_a_name_that_leads_out_of_the_directory_is_refused(to: Path, name: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.addfile(tarfile.TarInfo(name))
    stream.seek(0)
    with pytest.raises(CommandError, match="nothing is written"):
        receive(stream, to, {})


def test_a_place_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file below"):
        tar.write(f"file://{tmp_path}/nothing", io.BytesIO())


def test_sums_are_of_what_is_on_the_disk(run: Run, to: Path) -> None:
    run.fetch(to)
    for name in FILES:
        assert sha256((to / name).read_bytes()).hexdigest() == run.known[name]["sha256"]


def test_a_success_that_was_noted_until_november_2026_is_found(tmp_path: Path, to: Path) -> None:
    place, own = f"file://{tmp_path}/mine", tmp_path / "own"
    own.mkdir()
    for run in ("mine-1", "mine-2"):
        (own / "model.pt").write_text(run)
        artifacts.sync(own, f"{place}/{run}", Events(rank=0))
    (tmp_path / "mine/succeeded").write_text("mine-1")
    stream = io.BytesIO()
    tar.write(f"{place}/succeeded", stream)
    stream.seek(0)
    assert receive(stream, to, {}).written == ["artifacts.json", "model.pt"]
    assert (to / "model.pt").read_text() == "mine-1"
