"""What arrives of a run is checked, file by file, and nothing of the user's is overwritten."""

import io
import json
import os
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scripts.cli.runs import fetch
from scripts.cli.runs.fetch import Received, receive
from scripts.cli.terminal import CommandError
from slipway.events import Events
from slipway_trainer.agent import artifacts, tar

FILES = {"model.pt": b"weights" * 300_000, "logs/train.txt": b"", "a b.json": b"{}"}


def fetched(place: Path, to: Path, known: dict[str, Any]) -> Received:
    """Fetch a folder of the place where files are kept, as a pod sends it."""
    stream = io.BytesIO()
    tar.write(f"file://{place}", stream)
    stream.seek(0)
    return receive(stream, to, known)


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
        return fetched(self.place, to, self.known if known is None else known)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "mine/new"


def test_all_files_arrive_with_the_results_sha256_and_a_second_time_none_is_written(
    run: Run, to: Path
) -> None:
    found = run.fetch(to)
    assert sorted(found.written) == sorted(["artifacts.json", *FILES])
    assert (found.changed, found.missing) == ([], [])
    assert {name: (to / name).read_bytes() for name in FILES} == FILES
    assert found.bytes > sum(map(len, FILES.values()))
    assert not list(to.rglob("*.part"))
    before = {path: path.stat().st_mtime_ns for path in to.rglob("*")}
    found = run.fetch(to)
    assert (found.written, len(found.present)) == ([], len(FILES) + 1)
    assert {path: path.stat().st_mtime_ns for path in to.rglob("*")} == before


def test_all_that_is_changed_or_missing_is_named_and_the_rest_arrives(run: Run, to: Path) -> None:
    (run.place / "model.pt").write_bytes(b"weights" * 300_000 + b"!")
    (run.place / "a b.json").unlink()
    found = run.fetch(to)
    assert found.changed == ["model.pt"]
    assert found.missing == ["a b.json"]
    assert found.written == ["artifacts.json", "logs/train.txt"]


def test_a_list_that_is_not_the_results_proves_nothing(run: Run, to: Path) -> None:
    """The result's own list completes a result that names some files alone."""
    (run.place / "model.pt").write_bytes(b"forged")
    found = run.fetch(to, {"artifacts.json": run.known["artifacts.json"]})
    assert found.changed == ["model.pt"]
    (run.place / "artifacts.json").write_text(json.dumps({"model.pt": {"sha256": "0"}}))
    assert {*run.fetch(to).changed} == {"artifacts.json", "model.pt"}
    assert not (to / "model.pt").exists()


def test_two_jobs_files_go_into_one_directory(run: Run, to: Path) -> None:
    run.fetch(to)
    second = Run(to.parent / "second")
    second.known = second.leave({"other.pt": b"more"})
    found = second.fetch(to)
    assert "other.pt" in found.written
    assert json.loads((to / "artifacts.json").read_text()).keys() == FILES.keys()


def test_the_users_differing_files_are_all_named_and_kept(run: Run, to: Path) -> None:

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
    with pytest.raises(FileNotFoundError, match="there are no files under"):
        tar.write(f"file://{run.place}/nothing", io.BytesIO())


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped"])
def test_a_name_that_leads_out_of_the_directory_is_refused(to: Path, name: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.addfile(tarfile.TarInfo(name))
    stream.seek(0)
    with pytest.raises(CommandError, match="nothing was written"):
        receive(stream, to, {})


NAMES = st.binary(min_size=1, max_size=255).filter(
    lambda name: not {0, ord("/")} & {*name} and name not in {b".", b".."}
)


@given(st.sets(NAMES, min_size=1, max_size=4))
@example({b"\xff\xfe", b"a\nb", b"-rf", b"..."})
@example({b"x" * 255, b"\x1b[2J", b"*?[", b"~root"})
@example({b"artifacts.json"})
@settings(deadline=None)
def test_a_file_of_any_name_arrives_under_it(names: set[bytes]) -> None:
    """Names are bytes: no UTF-8, of several lines, with a leading dash, as long as can be."""
    with TemporaryDirectory() as directory:
        place, to = Path(directory, "kept"), Path(directory, "to")
        place.mkdir()
        for name in names:
            (place / os.fsdecode(name)).write_bytes(sha256(name).digest())
        found = fetched(place, to, {})
        arrived = {os.fsencode(path.name): path.read_bytes() for path in to.iterdir()}
        assert arrived == {name: sha256(name).digest() for name in names}
        assert not found.missing


def test_a_printed_name_is_one_line_without_escapes(run: Run, to: Path) -> None:
    name = "two\nlines \x1b[2J" + os.fsdecode(b"\xff")
    found = run.fetch(to, {**run.known, name: {"sha256": "0"}})
    assert found.missing == [name]
    with pytest.raises(CommandError) as caught:
        fetch._report(found, to, "mine", "dev")
    assert str(caught.value).splitlines()[1] == r"  two\nlines \x1b[2J\udcff: missing"


@pytest.mark.parametrize("content", [b"[]", b"[" * 100_000, b'{"a": 1}', b"\xff"], ids=range(4))
@pytest.mark.parametrize("folder", ["", "deeper/", "replica-1/"])
def test_a_file_of_the_programs_that_is_called_like_the_list_is_one_of_the_files(
    run: Run, to: Path, content: bytes, folder: str
) -> None:
    (run.place / "artifacts.json").unlink()
    (run.place / folder).mkdir(exist_ok=True)
    (run.place / f"{folder}artifacts.json").write_bytes(content)
    run.fetch(to, {})
    assert (to / f"{folder}artifacts.json").read_bytes() == content
    assert (to / "model.pt").read_bytes() == FILES["model.pt"]
