"""A job's data are fetched once into a cache, proven, and unpacked with care."""

import fcntl
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from slipway_trainer.agent import inputs
from slipway_trainer.agent.inputs import Data, NotFetchedError
from tests.unit.images.trainer.container import Container, ended

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


def data(path: Path) -> Data:
    digest = sha256(path.read_bytes()).hexdigest()
    return Data(f"file://{path}", digest, str(path.parent / "cache"))


@pytest.fixture
def pictures(tmp_path: Path) -> Data:
    tar(tmp_path / "pictures.tar")
    return data(tmp_path / "pictures.tar")


def nothing_but_locks(known: Data) -> bool:
    return all(each.suffix == ".lock" for each in Path(known.cache).iterdir())


@pytest.mark.parametrize("pack", [tar, zipped])
def test_an_archive_is_fetched_only_once(tmp_path: Path, pack: Callable[[Path], None]) -> None:
    """A job's data are fetched once into a cache, checked by sha256 and unpacked safely."""
    packed = tmp_path / "pictures"
    pack(packed)
    known = data(packed)
    assert inputs.fetch_data(known) == packed.stat().st_size
    assert (known.directory / "train/cat/1.png").read_bytes() == _PICTURE
    packed.unlink()
    assert inputs.fetch_data(known) == 0
    left = {each.name for each in Path(known.cache).iterdir()}
    assert left == {known.sha256, f".{known.sha256}.lock"}


def test_a_file_that_is_no_archive_lies_there_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(_PICTURE)
    known = data(tmp_path / "rows.parquet")
    inputs.fetch_data(known)
    assert (known.directory / "rows.parquet").read_bytes() == _PICTURE


def test_another_content_is_refused_with_both_sums(pictures: Data, tmp_path: Path) -> None:
    (tmp_path / "pictures.tar").write_bytes(b"other")
    with pytest.raises(NotFetchedError) as raised:
        inputs.fetch_data(pictures)
    for each in (pictures.url, pictures.sha256, sha256(b"other").hexdigest(), "`data.sha256`"):
        assert each in str(raised.value)
    assert nothing_but_locks(pictures)


@pytest.mark.parametrize(
    "pack",
    [
        partial(tar, name="../evil"),
        partial(tar, name="link", kind=tarfile.SYMTYPE),
        partial(tar, name="disk", kind=tarfile.BLKTYPE),
        partial(zipped, name="a/../../evil"),
        partial(zipped, name="/evil"),
    ],
    ids=["tar up", "link out", "device", "zip up", "zip absolute"],
)
def test_what_would_lead_outside_is_refused(tmp_path: Path, pack: Callable[[Path], None]) -> None:
    pack(tmp_path / "pictures")
    known = data(tmp_path / "pictures")
    with pytest.raises(NotFetchedError, match="archive"):
        inputs.fetch_data(known)
    assert nothing_but_locks(known)
    assert not list(tmp_path.rglob("evil"))


def test_a_store_that_has_no_such_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    known = Data(f"file://{tmp_path}/none.tar", "0" * 64, str(tmp_path / "cache"))
    with pytest.raises(NotFetchedError, match=r"none\.tar could not be fetched: FileNotFoundError"):
        inputs.fetch_data(known)


def test_of_pods_that_start_together_one_fetches(pictures: Data) -> None:
    Path(pictures.cache).mkdir()
    lock = Path(pictures.cache, f".{pictures.sha256}.lock").open("w")  # noqa: SIM115 - another pod's
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(NotFetchedError, match="another pod has been fetching it for 0 s"):
        inputs.fetch_data(pictures, turn_seconds=0.1)
    pictures.directory.mkdir()  # it has it
    threading.Timer(0.2, lock.close).start()
    assert inputs.fetch_data(pictures) == 0


def test_what_an_interrupted_pod_left_is_no_cached_content(pictures: Data) -> None:
    part = Path(pictures.cache, f".{pictures.sha256}.{socket.gethostname()}.part")
    part.mkdir(parents=True)
    (part / "half").touch()
    assert inputs.fetch_data(pictures) > 0
    assert [each.name for each in pictures.directory.iterdir()] == ["train"]


def test_a_container_reports_what_it_fetched(pictures: Data, tmp_path: Path) -> None:
    container, known = Container(tmp_path), vars(pictures)

    def fetched(code: int = 0, **others: str) -> str:
        declared = json.dumps({**known, **others})
        return ended(container.start("-m", "slipway_trainer.inputs", declared), code).out

    assert f": {(tmp_path / 'pictures.tar').stat().st_size} bytes from" in fetched()
    assert ": 0 bytes fetched" in fetched()
    fetched(1, sha256="0" * 64)
    assert known["sha256"] in container.message["error"]
    assert "0" * 64 in container.message["error"]
