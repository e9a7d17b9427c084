"""Images of one program each."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from clusters.embedded.host import image_reference
from images.build import program


def _archive(tmp_path: Path, content: bytes) -> bytes:
    binary = tmp_path / "program"
    binary.write_bytes(content)
    file = io.BytesIO()
    program.write_archive(file, "slipway.local/program:v1", binary, "/bin/program")
    return file.getvalue()


def test_an_archive_holds_the_program_under_its_name(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(_archive(tmp_path, b"\x7fELF"))) as outer:
        members = {name: outer.extractfile(name) for name in outer.getnames()}
        read = {name: member.read() for name, member in members.items() if member is not None}
    (manifest,) = json.loads(read["manifest.json"])
    assert manifest["RepoTags"] == ["slipway.local/program:v1"]
    config = json.loads(read[manifest["Config"]])
    assert config["config"]["Entrypoint"] == ["/bin/program"]
    layer = read[manifest["Layers"][0]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as inner:
        program = inner.getmember("bin/program")
        assert (program.size, program.mode, program.uid) == (4, 0o755, 0)


def test_an_image_does_not_run_as_root(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(_archive(tmp_path, b""))) as outer:
        name = next(name for name in outer.getnames() if len(name) == 64 + len(".json"))
        member = outer.extractfile(name)
        assert member is not None
        user = json.loads(member.read())["config"]["User"]
    assert int(user.split(":")[0]) > 0


def test_the_same_program_gives_the_same_archive(tmp_path: Path) -> None:
    assert _archive(tmp_path, b"same") == _archive(tmp_path, b"same")
    assert _archive(tmp_path, b"same") != _archive(tmp_path, b"else")


@pytest.mark.usefixtures("tools")
def test_a_reference_says_which_version() -> None:
    assert image_reference("coredns") == "slipway.local/coredns:v1"
