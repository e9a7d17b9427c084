"""Pictures in tar shards: their order, their bytes, and what is refused."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from slipway_trainer.data import shards


def written(file: Path, members: Mapping[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(file, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def listed(directory: Path) -> list[tuple[str, bytes]]:
    return [(kind, place.read()) for kind, place in shards.samples(directory)]


def test_pictures_are_in_the_order_of_folders_however_sharded(tmp_path: Path) -> None:
    written(tmp_path / "a.tar", {"./dog/2.png": b"d2", "cat/a/1.JPG": b"ca1", "cat/readme": b"-"})
    written(tmp_path / "b.tar", {"cat/b.png": b"cb", "dog/1.png": b"d1", "cat/a.png": b"ca"})
    expected = [("cat", b"ca"), ("cat", b"cb"), ("cat", b"ca1"), ("dog", b"d1"), ("dog", b"d2")]
    assert listed(tmp_path) == expected


def test_the_class_is_in_the_file_beside_a_picture_as_webdataset_writes_it(tmp_path: Path) -> None:
    members = {"1.jpg": b"one", "1.cls": b"7\n", "1.json": b"{}", "0/2.cls": b"5", "0/2.png": b"2"}
    written(tmp_path / "a.tar", members)
    assert listed(tmp_path) == [("5", b"2"), ("7", b"one")]


def test_a_name_in_two_shards_is_two_pictures_and_an_archive_beside_folders_none(
    tmp_path: Path,
) -> None:
    for name in "ab":
        written(tmp_path / f"{name}.tar", {"cat/1.png": name.encode()})
    assert listed(tmp_path) == [("cat", b"a"), ("cat", b"b")]
    (tmp_path / "beside/cat").mkdir(parents=True)
    written(tmp_path / "beside/a.tar", {"dog/1.png": b""})
    assert shards.samples(tmp_path / "beside") == ()


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"cat/1.txt": b""}, r"contain no images \(\.jpg, .*: write them with CLASS/NAME\.png"),
        ({"1.png": b""}, r"a\.tar contains 1\.png without a class: write it as CLASS/1\.png, or"),
        ({"../cat/1.png": b""}, r"contains \.\./cat/1\.png, which is not a regular file inside it"),
        ({"cat/../../1.png": b""}, r"contains cat/\.\./\.\./1\.png, which is not a regular file"),
    ],
)
def test_no_sample_says_what_is(members: Mapping[str, bytes], error: str, tmp_path: Path) -> None:
    written(tmp_path / "a.tar", members)
    with pytest.raises(ValueError, match=error):
        shards.samples(tmp_path)


def test_a_link_is_refused_since_it_has_no_bytes(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        member = tarfile.TarInfo("cat/1.png")
        member.type, member.linkname = tarfile.LNKTYPE, "cat/0.png"
        archive.addfile(member)
    with pytest.raises(ValueError, match=r"cat/1\.png, .*`tar --dereference --hard-dereference"):
        shards.samples(tmp_path)


@pytest.mark.parametrize("name", ["a.tar", "a.tgz"])
def test_a_compressed_shard_is_refused_with_how_to_decompress_it(name: str, tmp_path: Path) -> None:
    written(tmp_path / name, {"cat/1.png": b"1"}, "w:gz")
    with pytest.raises(ValueError, match=rf"{name} can't be read as a tar file.*`gunzip`"):
        shards.samples(tmp_path)


def test_a_shard_that_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "a.tar", {"cat/1.png": bytes(600), "cat/2.png": bytes(600)})
    whole = file.read_bytes()
    # Headers of 512 bytes lie at 0 and 1536.
    for damaged in (whole[:2500], whole[:1536] + b"?" + whole[1537:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"can't be read as a tar file: .*must be complete"):
            shards.samples(tmp_path)
