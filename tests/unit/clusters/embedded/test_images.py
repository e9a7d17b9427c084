"""Images of one program each."""

import io
import json
import tarfile
from pathlib import Path

from images.build import program


def _archive(binary: Path, content: bytes) -> bytes:
    binary.write_bytes(content)
    file = io.BytesIO()
    program.write_archive(file, "slipway.local/program:v1", binary, "/bin/program")
    return file.getvalue()


def test_the_same_program_gives_the_same_image_which_does_not_run_as_root(tmp_path: Path) -> None:
    made = _archive(tmp_path / "program", b"same")
    assert made == _archive(tmp_path / "program", b"same")
    assert made != _archive(tmp_path / "program", b"else")
    with tarfile.open(fileobj=io.BytesIO(made)) as outer:
        texts = [member.read() for name in outer.getnames() if (member := outer.extractfile(name))]
    (user,) = [json.loads(each)["config"]["User"] for each in texts if b'"User"' in each]
    assert int(user.split(":")[0]) > 0
