"""What a program left is copied, proven to have arrived, and kept for so many runs."""

import json
import os
import socket
import time
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.events import Events
from slipway_trainer.agent import artifacts

_EVENTS = Events(rank=0)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    directory = tmp_path / "outputs"
    (directory / "logs").mkdir(parents=True)
    (directory / "model.pt").write_bytes(b"weights")
    (directory / "logs/a trace.json").write_bytes(b"")
    return directory


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_every_file_arrives_with_its_size_and_sha256(
    outputs: Path, tmp_path: Path, scheme: str
) -> None:
    url = f"{scheme}://{tmp_path}/run"
    listed = artifacts.sync(outputs, url, _EVENTS)
    store, root = fsspec.url_to_fs(url)
    assert list(listed) == ["artifacts.json", "logs/a trace.json", "model.pt"]
    for path, entry in listed.items():
        content = store.cat_file(f"{root}/{path}")
        assert entry == {
            "url": f"{url}/{path}",
            "sha256": sha256(content).hexdigest(),
            "bytes": len(content),
        }
    del listed["artifacts.json"]
    assert json.loads(store.cat_file(f"{root}/artifacts.json")) == listed


def test_copying_again_replaces_what_is_there(outputs: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/run"
    artifacts.sync(outputs, url, _EVENTS)
    (outputs / "model.pt").write_bytes(b"w")
    artifacts.sync(outputs, url, _EVENTS)
    assert (tmp_path / "run/model.pt").read_bytes() == b"w"


def test_without_a_file_nothing_is_copied(tmp_path: Path) -> None:
    (tmp_path / "outputs/empty").mkdir(parents=True)
    assert artifacts.sync(tmp_path / "outputs", f"file://{tmp_path}/run", _EVENTS) == {}
    assert not (tmp_path / "run").exists()


def test_events_tell_each_file_and_the_whole(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts.sync(outputs, f"file://{tmp_path}/run", _EVENTS)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["artifact", "artifact", "artifacts"]
    assert events[1]["path"] == "model.pt"
    assert events[1]["sha256"] == sha256(b"weights").hexdigest()
    assert (events[2]["files"], events[2]["bytes"]) == (2, 7)


def _odd_names(directory: Path) -> None:
    """Make what the case of odd file names leaves, and more of its kinds."""
    for name in (
        b"caf\xe9.txt",
        b"two\nlines.txt",
        b"epoch=1-acc=[0.9].ckpt",
        "größe 🚀.json".encode(),
    ):
        (directory / os.fsdecode(name)).write_bytes(b"x")
    (directory / "latest").symlink_to("logs")
    (directory / "gone").symlink_to("nowhere")
    (directory / "same.pt").symlink_to("model.pt")
    (directory / "null").symlink_to("/dev/null")
    os.mkfifo(directory / "pipe")
    with socket.socket(socket.AF_UNIX) as listening, chdir(directory):
        listening.bind("socket")


def test_what_is_no_file_or_has_an_odd_name_is_left_out_and_named(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FIFO is never opened, which would wait for ever; a run that trained is recorded."""
    _odd_names(outputs)
    listed = artifacts.sync(outputs, f"file://{tmp_path}/run", _EVENTS, limit_seconds=20)
    assert set(listed) == {
        *("artifacts.json", "logs/a trace.json", "model.pt", "same.pt"),
        *("epoch=1-acc=[0.9].ckpt", "größe 🚀.json"),
    }
    json.dumps(listed, ensure_ascii=False).encode()
    warning, *_ = map(json.loads, capsys.readouterr().out.splitlines())
    assert warning["event"] == "warning"
    for name in ("caf\\udce9.txt", "two\\nlines.txt", "latest", "gone", "null", "pipe", "socket"):
        assert f"'{name}'" in warning["warning"]


def test_what_is_no_file_alone_is_named_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert artifacts.sync(tmp_path, "memory://nothing", _EVENTS) == {}
    assert "'pipe'" in capsys.readouterr().out


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.binary(min_size=1, max_size=12).filter(
            lambda name: name not in {b".", b".."} and not {0, 47} & set(name)
        ),
        max_size=4,
        unique=True,
    )
)
def test_a_file_of_any_name_arrives_or_is_left_out(tmp_path: Path, names: list[bytes]) -> None:
    with TemporaryDirectory(dir=tmp_path) as directory:
        for name in names:
            Path(directory, os.fsdecode(name)).write_bytes(name)
        files, others = artifacts.sort(Path(directory))
        assert sorted(map(os.fsencode, [*files, *others])) == sorted(names)
        listed = artifacts.sync(Path(directory), f"file://{directory}-run", _EVENTS)
    assert listed.keys() - {"artifacts.json"} == files.keys()
    json.dumps(listed, ensure_ascii=False).encode()


class _Broken(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Keeps something else than what it is given."""

    protocol = "broken"
    kept = b""

    def put(self, lpath: list[str], rpath: list[str], **_: Any) -> None:
        for path in rpath:
            self.pipe_file(path, self.kept)


@pytest.mark.parametrize(
    ("kept", "says"), [(b"weight", "has 6 bytes and not the 7"), (b"Weights", "has the sha256")]
)
def test_a_copy_that_differs_is_an_error(
    outputs: Path, kept: bytes, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.register_implementation("broken", _Broken, clobber=True)
    monkeypatch.setattr(_Broken, "kept", kept)
    (outputs / "logs/a trace.json").unlink()
    with pytest.raises(artifacts.NotArrivedError, match=says):
        artifacts.sync(outputs, "broken://run", _EVENTS)
    assert not fsspec.filesystem("broken").exists("broken://run/artifacts.json")


class _Slow(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    protocol = "slow"

    def put(self, lpath: list[str], rpath: list[str], **_: Any) -> None:
        time.sleep(30)


def test_copying_takes_no_longer_than_its_limit(outputs: Path) -> None:
    fsspec.register_implementation("slow", _Slow, clobber=True)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="copying 2 files to slow://run did not end within"):
        artifacts.sync(outputs, "slow://run", _EVENTS, limit_seconds=0.2)
    assert time.monotonic() - begun < 5


def test_a_program_must_not_use_the_name_of_the_list(outputs: Path, tmp_path: Path) -> None:
    (outputs / "artifacts.json").touch()
    with pytest.raises(ValueError, match="rename it"):
        artifacts.sync(outputs, f"file://{tmp_path}/run", _EVENTS)


def test_an_unknown_store_is_named(outputs: Path) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        artifacts.sync(outputs, "nowhere://run", _EVENTS)


def _left(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir()}


@pytest.mark.parametrize(
    ("ends", "stay"),
    [
        ([True], {"run-0"}),
        ([True, True, True], {"run-2"}),
        ([True, False], {"run-0", "run-1"}),
        ([True, False, False], {"run-0", "run-2"}),
        ([False, False], {"run-1"}),
        ([True, False, True], {"run-2"}),
    ],
)
def test_the_last_run_and_the_last_that_ended_well_stay(
    tmp_path: Path, ends: list[bool], stay: set[str]
) -> None:
    for number, is_success in enumerate(ends):
        run = tmp_path / f"run-{number}"
        (run / "replica-1").mkdir(parents=True)
        (run / "model.pt").write_text("weights")
        artifacts.prune(f"file://{tmp_path}", run.name, is_success=is_success)
    assert _left(tmp_path) == stay
    assert all((tmp_path / run / "model.pt").exists() for run in stay)


def test_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "run-0").mkdir()
    assert artifacts.prune(f"file://{tmp_path}", "run-1", is_success=False) == ["run-0"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_store_that_does_not_answer_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def exists(self, _: str) -> None:
            time.sleep(30)

    monkeypatch.setattr("fsspec.url_to_fs", lambda url: (Silent(), url))
    with pytest.raises(TimeoutError, match="reaching silent://here"):
        artifacts.reach("silent://here", seconds=0.1)
