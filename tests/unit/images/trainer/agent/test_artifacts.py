"""What a program left is copied, proven to have arrived, and kept; also while it writes."""

import json
import os
import socket
import time
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from slipway.events import Events
from slipway_trainer.agent import artifacts, launch
from slipway_trainer.agent.mirror import Mirror
from tests.unit.images.trainer.store import store

_EVENTS = Events(rank=0)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    directory = tmp_path / "outputs"
    (directory / "logs").mkdir(parents=True)
    (directory / "model.pt").write_bytes(b"weights")
    (directory / "logs/a trace.json").touch()
    return directory


def test_what_is_no_file_or_has_an_odd_name_is_left_out_and_named(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FIFO is never opened, which would wait for ever; a run that trained is recorded."""
    for name in (b"caf\xe9.txt", b"two\nlines.txt", b"epoch=1-acc=[0.9].ckpt", b"artifacts.json"):
        (outputs / os.fsdecode(name)).write_bytes(b"x")
    (outputs / "größe 🚀.json").touch()
    links = {"latest": "logs", "gone": "nowhere", "same": "model.pt", "null": "/dev/null"}
    for link, target in links.items():
        (outputs / link).symlink_to(target)
    os.mkfifo(outputs / "pipe")
    with socket.socket(socket.AF_UNIX) as listening, chdir(outputs):
        listening.bind("socket")
    listed = artifacts.sync(outputs, f"file://{tmp_path}/run", _EVENTS)
    kept = {"logs/a trace.json", "model.pt", "same", "epoch=1-acc=[0.9].ckpt", "größe 🚀.json"}
    assert set(listed) == {"artifacts.json", *kept}
    warning, *_ = map(json.loads, capsys.readouterr().out.splitlines())
    assert warning["event"] == "warning"
    names = ("latest", "gone", "null", "pipe", "socket", "artifacts.json")
    for odd in ("caf\\udce9.txt", "two\\nlines.txt", *names):
        assert f"'{odd}'" in warning["warning"]


_NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: not {0, 47} & {*name} and name not in {b".", b".."}
)


@given(st.lists(_NAMES, max_size=4, unique=True))
def test_a_file_of_any_name_is_copied_or_named_by_a_warning(names: list[bytes]) -> None:
    with TemporaryDirectory() as directory, TemporaryDirectory() as run:
        for name in names:
            Path(directory, os.fsdecode(name)).write_bytes(name)
        files, others = artifacts.sort(Path(directory))
        assert sorted(map(os.fsencode, [*files, *others])) == sorted(names)
        listed = artifacts.sync(Path(directory), f"file://{run}", _EVENTS)
    assert listed.keys() - {"artifacts.json"} == files.keys()
    json.dumps(listed, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("kept", "says"), [(b"weight", "is 6 bytes long, but 7 bytes"), (b"Weights", "has sha256")]
)
def test_a_copy_that_differs_is_an_error(outputs: Path, kept: bytes, says: str) -> None:
    def put(own: MemoryFileSystem, _lpath: object, rpath: list[str]) -> None:
        for path in rpath:
            own.pipe_file(path, kept)

    url = store("broken", put=put)
    (outputs / "logs/a trace.json").unlink()
    with pytest.raises(artifacts.NotArrivedError, match=says):
        artifacts.sync(outputs, url, _EVENTS)
    assert not fsspec.filesystem("broken").exists(f"{url}/artifacts.json")


def test_a_store_that_does_not_answer_is_given_up(
    outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "LIMIT_SECONDS", 0.2)
    begun, hang = time.monotonic(), lambda *_: time.sleep(30)
    url = store("slow", put=hang)
    os.truncate(outputs / "model.pt", 10**7)  # for 10 MB it has a second more, and for two files
    with pytest.raises(TimeoutError, match="copying 2 files to slow://run did not finish within 2"):
        artifacts.sync(outputs, url, _EVENTS)
    with pytest.raises(TimeoutError, match="listing hanging://run did not finish within 0"):
        Mirror(outputs, store("hanging", find=hang)).fetch()
    with pytest.raises(TimeoutError, match="reaching silent://run"):
        artifacts.reach(store("silent", exists=hang), seconds=0.1)
    assert time.monotonic() - begun < 10


_ENDS = st.sampled_from([(True, True), (True, False), (False, False)])
"""Whether the program of rank 0 ended well, and whether the run was judged a success."""


@given(st.lists(st.tuples(_ENDS, st.booleans(), st.booleans()), max_size=8))
def test_the_last_success_and_later_stay(runs: list[tuple[tuple[bool, bool], bool, bool]]) -> None:
    """A waiter may not know the last success, and an attempt that was given up may end last."""
    memory, place = MemoryFileSystem(), f"/{uuid4()}"
    succeeded: str | None = None
    late, ended = list[tuple[str, str | None, bool]](), set[str]()

    def end(run: str, known: str | None, *, is_success: bool) -> None:
        memory.pipe_file(f"{place}/{run}/model.pt", b"weights")
        artifacts.prune(f"memory:/{place}", run, known, is_success=is_success)
        ended.add(run)
        for each in filter(None, (max(ended), succeeded)):
            assert memory.exists(f"{place}/{each}/model.pt"), each

    for number, ((is_success, is_judged_one), is_known, is_late) in enumerate(runs):
        run, known = f"run-{number}", succeeded if is_known else None
        if is_late and not is_judged_one:
            late.append((run, known, is_success))
            continue
        end(run, known, is_success=is_success)
        succeeded = run if is_judged_one else succeeded
    for run, known, is_success in late:
        end(run, known, is_success=is_success)


def test_earlier_runs_go_also_if_the_job_has_another_name_since(tmp_path: Path) -> None:
    runs = [f"{job}-2026112{day}-101500-ab12" for day, job in enumerate("zyxw")]
    for run in runs:
        (tmp_path / run).mkdir()
    artifacts.prune(f"file://{tmp_path}", runs[3], runs[2], is_success=False)
    assert {path.name for path in tmp_path.iterdir()} == {runs[2], runs[3]}


def test_a_store_that_cannot_say_which_run_ended_well_loses_nothing() -> None:
    """And a place that was emptied meanwhile is no failure."""
    url = store("failing", info=Mock(side_effect=ConnectionError))
    MemoryFileSystem().pipe_file(f"{url}/run-0/model.pt", b"weights")
    with pytest.raises(ConnectionError):
        artifacts.prune(url, "run-1", None, is_success=False)
    assert MemoryFileSystem().exists(f"{url}/run-0/model.pt")
    url = store("emptied", ls=Mock(side_effect=FileNotFoundError))
    artifacts.remove_folders(url, lambda _: True)


def files(url: str) -> dict[str, str]:
    """Return what is at a URL, by name."""
    copies, root = fsspec.url_to_fs(url)
    return {path[len(root) + 1 :]: copies.cat_file(path).decode() for path in copies.find(root)}


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_a_mirror_follows_what_the_program_writes_and_removes(
    scheme: str, outputs: Path, tmp_path: Path
) -> None:
    """Files are copied when they have settled; what others copied there stays."""
    url, trace = f"{scheme}://{tmp_path}/copies", outputs / "logs/a trace.json"
    copies, root = fsspec.url_to_fs(url)
    copies.makedirs(root)
    copies.pipe_file(f"{root}/theirs", b"y")
    mirror, theirs = Mirror(outputs, url), {"theirs": "y", "model.pt": "weights"}
    mirror.copy(settled_seconds=60)
    assert files(url) == {"theirs": "y"}, "they may still be written"
    mirror.copy(settled_seconds=0)
    assert files(url) == {**theirs, "logs/a trace.json": ""}
    trace.write_text("second")
    assert mirror.unchanged() == {"model.pt"}
    mirror.copy(settled_seconds=0)
    assert files(url) == {**theirs, "logs/a trace.json": "second"}
    assert mirror.unchanged() == {"model.pt", "logs/a trace.json"}
    trace.unlink()
    for name in (".123.part", ".metadata"):  # an incomplete checkpoint, and a hidden file
        (outputs / name).touch()
    mirror.copy(settled_seconds=0)
    assert files(url) == {**theirs, ".metadata": ""}


def test_a_long_copy_is_reported(
    outputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rank that prints nothing for 30 s after rank 0 is done would be given up."""

    def put(own: object, *arguments: str, **options: object) -> None:
        time.sleep(0.5)
        assert '"event": "copying"' in capsys.readouterr().out
        MemoryFileSystem.put(own, *arguments, **options)

    monkeypatch.setattr(launch, "_TELL_SECONDS", 0.01)
    monkeypatch.setenv("SLIPWAY_OUTPUTS", "demanded")
    mirror = Mirror(outputs, "")
    assert launch._copy(outputs, store("long", put=put), 0, {}, mirror)[0] == 0


@pytest.mark.parametrize("rank", ["0", "1"])
def test_only_rank_0_keeps_a_checkpoint_that_its_store_lacks(
    rank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pod has it from an earlier start, and would copy it back."""
    monkeypatch.setenv("RANK", rank)
    url = f"{store('two')}/{uuid4()}"
    fsspec.filesystem("two").pipe_file(f"{url}/step-2.pt", b"newer")
    for name in ("step-1.pt", "__1_0.distcp"):
        (tmp_path / name).touch()
    Mirror(tmp_path, url).fetch()
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"step-1.pt"} == {"step-2.pt", "__1_0.distcp"}
    assert ("step-1.pt" in left) == (rank == "0")


def test_checkpoints_are_fetched_in_pieces_without_those_removed_meanwhile(tmp_path: Path) -> None:
    """So they need little memory; rank 0 removes old ones while others start."""

    def find(_own: object, root: str, **_how: object) -> list[str]:
        return [f"{root}/{number}.pt" for number in (1, 2)]

    url = f"{store('pieces', find=find, get_file=Mock())}/{uuid4()}"
    fsspec.filesystem("pieces").pipe_file(f"{url}/2.pt", b"state")
    Mirror(tmp_path, url).fetch()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"2.pt": "state"}


def test_a_store_that_does_not_answer_is_tried_again_and_warned_of_once(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def put_file(own: object, *arguments: str, **options: object) -> None:
        if is_gone:
            raise ConnectionError("no route")
        MemoryFileSystem.put_file(own, *arguments, **options)

    is_gone, url = True, f"{store('gone', put_file=put_file)}/{uuid4()}"
    mirror = Mirror(outputs, url)
    for _ in range(2):
        mirror.copy(settled_seconds=0)
    [warned] = map(json.loads, capsys.readouterr().out.splitlines())
    assert warned["event"] == "warning"
    assert f"not been copied to {url} yet: ConnectionError: no route" in warned["warning"]
    is_gone = False
    mirror.copy(settled_seconds=0)
    assert files(url) == {"model.pt": "weights", "logs/a trace.json": ""}
