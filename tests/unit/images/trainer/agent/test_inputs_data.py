"""A job's data are fetched once into a cache, proven, and unpacked with care."""

import fcntl
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from slipway_trainer.agent import inputs
from slipway_trainer.agent.inputs import Data, NotFetchedError

_PICTURE = b"a picture"


def tar(path: Path, name: str = "train/cat/1.png", kind: bytes = tarfile.REGTYPE) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    member.size = len(_PICTURE) if kind == tarfile.REGTYPE else 0
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(member, io.BytesIO(_PICTURE))


def zipped(path: Path, name: str = "train/cat/1.png") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, _PICTURE)


def wanted(path: Path) -> Data:
    digest = sha256(path.read_bytes()).hexdigest()
    return Data(f"file://{path}", digest, str(path.parent / "cache"))


def nothing_but_locks(wanted: Data) -> bool:
    return all(each.suffix == ".lock" for each in Path(wanted.cache).iterdir())


@pytest.mark.parametrize("pack", [tar, zipped])
def test_an_archive_is_fetched_only_once(tmp_path: Path, pack: Callable[[Path], None]) -> None:
    """A job's data are fetched once into a cache, checked by sha256 and unpacked safely."""
    packed = tmp_path / "pictures"
    pack(packed)
    known = wanted(packed)
    assert inputs.fetch_data(known) == packed.stat().st_size
    assert (known.directory / "train/cat/1.png").read_bytes() == _PICTURE
    packed.unlink()
    assert inputs.fetch_data(known) == 0
    left = {each.name for each in Path(known.cache).iterdir()}
    assert left == {known.sha256, f".{known.sha256}.lock"}


def test_a_file_that_is_no_archive_lies_there_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(_PICTURE)
    known = wanted(tmp_path / "rows.parquet")
    inputs.fetch_data(known)
    assert (known.directory / "rows.parquet").read_bytes() == _PICTURE


def test_another_content_is_refused_with_both_sums(tmp_path: Path) -> None:
    tar(tmp_path / "pictures.tar")
    known = wanted(tmp_path / "pictures.tar")
    (tmp_path / "pictures.tar").write_bytes(b"other")
    with pytest.raises(NotFetchedError) as raised:
        inputs.fetch_data(known)
    for told in (known.url, known.sha256, sha256(b"other").hexdigest(), "`data.sha256`"):
        assert told in str(raised.value)
    assert nothing_but_locks(known)


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(lambda path: tar(path, "../evil"), id="tar up"),
        pytest.param(lambda path: tar(path, "link", tarfile.SYMTYPE), id="link out"),
        pytest.param(lambda path: tar(path, "disk", tarfile.BLKTYPE), id="device"),
        pytest.param(lambda path: zipped(path, "a/../../evil"), id="zip up"),
        pytest.param(lambda path: zipped(path, "/evil"), id="zip absolute"),
    ],
)
def test_what_would_lead_outside_is_refused(tmp_path: Path, pack: Callable[[Path], None]) -> None:
    pack(tmp_path / "pictures")
    known = wanted(tmp_path / "pictures")
    with pytest.raises(NotFetchedError, match="archive"):
        inputs.fetch_data(known)
    assert nothing_but_locks(known)
    assert not list(tmp_path.rglob("evil"))


def test_a_store_that_has_no_such_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    known = Data(f"file://{tmp_path}/none.tar", "0" * 64, str(tmp_path / "cache"))
    with pytest.raises(NotFetchedError, match=r"none\.tar could not be fetched: FileNotFoundError"):
        inputs.fetch_data(known)


def test_of_pods_that_start_together_one_fetches(tmp_path: Path) -> None:
    tar(tmp_path / "pictures.tar")
    known = wanted(tmp_path / "pictures.tar")
    Path(known.cache).mkdir()
    lock = Path(known.cache, f".{known.sha256}.lock").open("w")  # noqa: SIM115 - another pod's
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(NotFetchedError, match="another pod has been fetching it for 0 s"):
        inputs.fetch_data(known, turn_seconds=0.1)
    known.directory.mkdir()  # it has it
    threading.Timer(0.2, lock.close).start()
    assert inputs.fetch_data(known) == 0


def test_what_an_interrupted_pod_left_is_no_cached_content(tmp_path: Path) -> None:
    tar(tmp_path / "pictures.tar")
    known = wanted(tmp_path / "pictures.tar")
    part = Path(known.cache, f".{known.sha256}.{socket.gethostname()}.part")
    part.mkdir(parents=True)
    (part / "half").touch()
    assert inputs.fetch_data(known) > 0
    assert [each.name for each in known.directory.iterdir()] == ["train"]


def test_a_container_reports_what_it_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINATION_LOG", str(tmp_path / "log"))
    (tmp_path / "log").touch()
    tar(tmp_path / "pictures.tar")
    known = vars(wanted(tmp_path / "pictures.tar"))
    assert inputs.main([json.dumps(known)]) == inputs.main([json.dumps(known)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert f": {(tmp_path / 'pictures.tar').stat().st_size} bytes from" in first
    assert ": 0 bytes fetched" in second
    assert inputs.main([json.dumps({**known, "sha256": "0" * 64})]) == 1
    error = json.loads((tmp_path / "log").read_text())["error"]
    assert known["sha256"] in error
    assert "0" * 64 in error
