"""The packages that people ask for install beside the image's torch, and can be imported.

The newest of each, from the registry. With SLIPWAY_PACKAGES=docs/packages.md the list there is
written again.
"""

import datetime as dt
import json
import os
import re
from pathlib import Path

import pytest
import yaml

from core.paths import CHECKOUT
from images.build import pip
from tests.trainer.conftest import Opened

_ASKED: dict[str, str] = yaml.safe_load(Path(__file__).with_name("packages.yaml").read_text())
_PAGE = CHECKOUT / "docs" / "packages.md"
_LIST = re.compile(r"(?<=```\n\n)(?:- .*\n)+\Z")


@pytest.mark.long
def test_the_newest_packages_install_and_import_beside_torch(image: Opened, tmp_path: Path) -> None:
    """Each in an environment of its own, or pip's reason in one line: none is without."""
    container = image.buildah("from", image.reference).strip()
    with_settings = [f"--volume={file}:{place}" for place, file in pip.mounts(tmp_path).items()]
    command = ("python3", "/sweep.py", *(f"{name}:{_ASKED[name]}" for name in _ASKED))
    script = f"--volume={Path(__file__).with_name('sweep.py')}:/sweep.py"
    options = ("--isolation=chroot", "--user=0", *with_settings, script, container, "--")
    lines = image.buildah("run", *options, *command, limit=3600).splitlines()
    found = {each["package"]: each for each in map(json.loads, lines)}
    assert found.keys() == _ASKED.keys()
    rows = {name: _row(name, each) for name, each in found.items()}
    if page := os.environ.get("SLIPWAY_PACKAGES"):
        text = _LIST.sub("".join(rows.values()).replace("\\", r"\\"), _PAGE.read_text())
        day = f"on {dt.datetime.now(tz=dt.UTC):%Y-%m-%d}"
        Path(page).write_text(re.sub(r"on \d{4}-\d\d-\d\d", day, text))
    named = set(re.findall(r"^- (\S+): ", _PAGE.read_text(), re.MULTILINE))
    wrong = {name: row for name, row in rows.items() if "version" not in found[name]}
    assert wrong.keys() <= named, wrong


def _row(name: str, found: dict[str, str]) -> str:
    if "version" in found:
        return f"- {name} {found['version']}\n"
    lines = found["printed"].strip().splitlines()
    return f"- {name}: {pip.reason(found['printed']) or lines[-1]}\n"


def test_the_list_has_every_package() -> None:
    assert re.findall(r"^- (\S+?)(?:: .+| \S+)$", _PAGE.read_text(), re.MULTILINE) == [*_ASKED]
