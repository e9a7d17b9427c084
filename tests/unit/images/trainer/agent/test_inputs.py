"""What a job takes from others and its data are fetched, proven, and unpacked with care."""

import fcntl
import io
import signal
import socket
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import fsspec
import pytest

from slipway_trainer.agent import artifacts, inputs
from slipway_trainer.agent.inputs import Data, Input, NotFetchedError
from tests.unit.images.trainer.store import store

_MODEL = b"weights" * 1000


@pytest.fixture
def wanted(tmp_path: Path) -> Input:
    """A model that another job left on a volume."""
    model = tmp_path / "results/run-1/model.pt"
    model.parent.mkdir(parents=True)
    model.write_bytes(_MODEL)
    path, digest = tmp_path / "work/inputs/model/model.pt", sha256(_MODEL).hexdigest()
    return Input("model", "train", "model.pt", str(path), f"file://{model}", digest)


def failure(wanted: Input, **limits: float) -> str:
    with pytest.raises(NotFetchedError) as raised:
        inputs.fetch_input(wanted, **limits)
    assert not Path(wanted.path).exists()
    return str(raised.value)


def test_it_is_where_the_job_looks_for_it(
    wanted: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any store, and from a volume that is mounted elsewhere."""
    monkeypatch.setattr(artifacts, "_CHUNK_BYTES", 100)  # Many reads are one file.
    url = "memory://results/run-1/model.pt"
    fsspec.filesystem("memory").pipe_file(url, _MODEL)
    elsewhere = "file:///there/../there/run-1/model.pt"
    mounted = ("/there", str(tmp_path / "results"))
    Path(wanted.path).parent.mkdir(parents=True)
    for each in (wanted, replace(wanted, url=url), replace(wanted, url=elsewhere, mounted=mounted)):
        Path(wanted.path).write_bytes(b"changed by the program")
        assert inputs.fetch_input(each) == len(_MODEL)
        assert Path(wanted.path).read_bytes() == _MODEL
        assert [each.name for each in Path(wanted.path).parent.iterdir()] == ["model.pt"]


def test_a_file_that_is_gone_or_was_written_over_is_refused(wanted: Input) -> None:
    model = Path(wanted.url.removeprefix("file://"))
    model.write_bytes(b"another run's")
    said = failure(wanted)
    assert said.startswith("input model: artifact model.pt from job train was changed")
    other = sha256(b"another run's").hexdigest()
    assert all(each in said for each in (wanted.url, wanted.sha256, other, "run train again"))
    model.unlink()
    what = "input model: artifact model.pt from job train is no longer at"
    assert failure(wanted) == f"{what} {wanted.url}. Run train again to recreate it"


def test_a_failed_fetch_includes_the_error_of_the_store(wanted: Input) -> None:
    said = failure(replace(wanted, url="nowhere://results/model.pt"))
    assert "could not be fetched from nowhere://results/model.pt: ValueError: " in said
    assert "its `env`" in said
    url, begun = store("silent", open=lambda *_: time.sleep(30)), time.monotonic()
    said = failure(replace(wanted, url=f"{url}/model.pt"), stall_seconds=0.2)
    assert "TimeoutError: opening the file did not finish within" in said
    assert time.monotonic() - begun < 5


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


def refused(known: Data) -> str:
    """Return why data are refused, of which nothing is left but locks."""
    with pytest.raises(NotFetchedError) as raised:
        inputs.fetch_data(known)
    assert {each.suffix for each in Path(known.cache).iterdir()} == {".lock"}
    return str(raised.value)


@pytest.mark.parametrize(("pack", "name"), [(tar, "a"), (zipped, "v1.0"), (zipped, "a.ZIP")])
def test_an_archive_is_fetched_only_once(
    tmp_path: Path, pack: Callable[[Path], None], name: str
) -> None:
    """A job's data are fetched once into a cache, checked by sha256 and unpacked safely."""
    packed = tmp_path / name
    pack(packed)
    known = data(packed)
    assert inputs.fetch_data(known) == packed.stat().st_size
    assert (known.directory / "train/cat/1.png").read_bytes() == _PICTURE
    packed.unlink()
    assert inputs.fetch_data(known) == 0
    left = {each.name for each in Path(known.cache).iterdir()}
    assert left == {known.sha256, f".{known.sha256}.lock"}


@pytest.mark.parametrize("name", ["rows.parquet", "rows.npz", "model.pt", "zeros.bin"])
def test_a_file_that_is_no_archive_lies_there_by_its_name(tmp_path: Path, name: str) -> None:
    """Though numpy and torch write zip files, and a tar archive may begin with zeros."""
    zipped(tmp_path / name)
    if content := {"rows.parquet": _PICTURE, "zeros.bin": bytes(1024)}.get(name):
        (tmp_path / name).write_bytes(content)
    known = data(tmp_path / name)
    inputs.fetch_data(known)
    assert sha256((known.directory / name).read_bytes()).hexdigest() == known.sha256


def test_another_content_is_refused_with_both_sums(pictures: Data, tmp_path: Path) -> None:
    """And a missing one with what to do."""
    (tmp_path / "pictures.tar").write_bytes(b"other")
    said = refused(pictures)
    for each in (pictures.url, pictures.sha256, sha256(b"other").hexdigest(), "`data.sha256`"):
        assert each in said
    (tmp_path / "pictures.tar").unlink()
    assert "tar could not be fetched: FileNotFoundError" in refused(pictures)


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
    assert "archive" in refused(data(tmp_path / "pictures"))
    assert not list(tmp_path.rglob("evil"))


def test_of_pods_that_start_together_one_fetches(pictures: Data) -> None:
    Path(pictures.cache).mkdir()
    lock = Path(pictures.cache, f".{pictures.sha256}.lock").open("w")  # noqa: SIM115 - another pod's
    fcntl.flock(lock, fcntl.LOCK_EX)
    limits = list[tuple[float, float]]()
    pictures.directory.mkdir()  # it has it
    threading.Timer(0.2, lambda: limits.append(signal.getitimer(signal.ITIMER_REAL))).start()
    threading.Timer(0.4, lock.close).start()
    assert inputs.fetch_data(pictures) == 0
    assert limits == [(0, 0)], "it may take hours: `startTimeout` is the limit"


def test_what_an_interrupted_pod_left_is_no_cached_content(pictures: Data) -> None:
    """And is removed, also if another pod has fetched the data since."""
    part = Path(pictures.cache, f".{pictures.sha256}.{socket.gethostname()}.part")
    for is_cached in (False, True):
        part.mkdir(parents=True)
        (part / "half").touch()
        assert (inputs.fetch_data(pictures) == 0) == is_cached
        assert [each.name for each in pictures.directory.iterdir()] == ["train"]
        assert not part.exists()
