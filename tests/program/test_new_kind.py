"""A new kind of cluster is a folder that exports one `Kind`, and one line in `CLUSTERS`."""

import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.cluster import Kind
from core.handler import Handler
from infra import settings
from infra.provider.resources import handlers, image_targets
from scripts.cli import down
from scripts.setup.tools import tools_of
from tests.program.declared import Declare

pytestmark = pytest.mark.usefixtures("pretended")


def test_its_line_alone_imports_nothing_of_it_but_its_kind() -> None:
    loaded = {name for name in sys.modules if "program.pretended" in name}
    assert loaded == {"tests.program.pretended"}


def test_the_whole_program_runs_on_it(declared: Declare) -> None:
    jobs: dict[str, Any] = {"mnist-gloo": {}, "mnist-nccl": {}}
    program = declared("mine", cluster={"kind": "pretended", "nodes": 2}, jobs=jobs)
    cluster = program.one("slipway:clusters:Pretended", "mine")
    for run in program.of("PyTorchJob"):
        assert cluster.urn in program.needs(run)
    images = program.of("images:Program")
    assert {each.inputs["target"]["kind"] for each in images} == {"pretended"}
    assert program.outputs["cluster"]["kind"] == "pretended"
    assert program.outputs["jobs"].keys() == jobs.keys()


def test_its_settings_are_checked_like_those_of_any_other() -> None:
    with pytest.raises(settings.SettingsError, match=r'node: there is no such key.*"nodes"'):
        settings.parse({"slipway:cluster": '{"kind": "pretended", "node": 2}'}, "mine")
    with pytest.raises(settings.SettingsError, match='did you mean "pretended"'):
        settings.parse({"slipway:cluster": '{"kind": "pretend"}'}, "mine")


def test_set_up_provides_its_tools_and_the_provider_serves_it_until_down_removes_it(
    pretended: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tools_of(pretended)[-1].name == "nft"
    assert isinstance(handlers()["slipway:clusters:Pretended"](), Handler)
    assert "pretended" in image_targets()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert pretended.own is not None
    directory = pretended.own.directory("mine")
    directory.mkdir(parents=True)
    pretended.own.remove(directory)
    assert not directory.exists()
    assert down._remains("mine", {"kind": "pretended", "name": "mine"}) == {
        "pretended clusters": ["mine of slipway/mine: remove it"],
        "processes": [],
        "files": [],
    }
