"""Images pushed to a real registry that wants a login, with the engine that builds them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from core import toolchain
from images.build.program import ENTRYPOINTS, Program
from images.image_lifecycle import ProgramHandler
from images.targets.target import TargetError, by_digest, target_of
from tests.trainer.registry import OTHERS, PASSWORD, USER, RunningRegistry, running
from tests.unit.images.objects import Listener

_OF = ProgramHandler()
_LOOKER = """
import pathlib, sys
if "push" in sys.argv:
    file = pathlib.Path(sys.argv[sys.argv.index("--authfile") + 1])
    modes = [oct(each.stat().st_mode) for each in (file, file.parent)]
    told = [" ".join(sys.argv), *modes, str(file), file.read_text()]
    pathlib.Path(SEEN).write_text("\\n".join(told))
elif "images" in sys.argv:
    print("sha256:0")
"""
"""What stands for buildah: it writes down what a push is given."""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running(tmp_path_factory.mktemp("registry")) as made:
        yield made


def _target(registry: RunningRegistry, **others: Any) -> dict[str, Any]:
    server = f"{registry.server}/team"
    credentials = str(registry.credentials)
    return {"kind": "registry", "server": server, "credentials": credentials, **others}


def _inputs(registry: RunningRegistry, name: str) -> dict[str, Any]:
    program = Program.from_tool(toolchain.tool(name), ENTRYPOINTS[name])
    return {
        "name": name,
        "path": str(program.context),
        "version": program.tool_version,
        "entrypoint": program.entrypoint,
        "contentHash": program.content_hash,
        "target": _target(registry),
    }


def _manifest(registry: RunningRegistry, path: str) -> dict[str, Any]:
    url = f"http://{registry.server}/v2/{path}"
    accepted = "application/vnd.oci.image.manifest.v1+json"
    answer = requests.get(url, auth=(USER, PASSWORD), headers={"Accept": accepted}, timeout=10)
    answer.raise_for_status()
    return dict(answer.json())


def test_a_program_is_pushed_once_and_a_pod_calls_it_by_the_registrys_name(
    registry: RunningRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = _inputs(registry, "tcp-wait")
    _, outputs = _OF.create(inputs, Listener())
    repository, _, tag = outputs["reference"].rpartition(":")
    assert repository == f"{registry.server}/team/slipway-tcp-wait"
    manifest = _manifest(registry, f"team/slipway-tcp-wait/manifests/{tag}")
    config = manifest["config"]["digest"]
    assert _manifest(registry, f"team/slipway-tcp-wait/blobs/{config}")["config"]["Entrypoint"] == [
        "/tcp-wait"
    ]
    state = {**inputs, **outputs}
    assert _OF.diff(state, inputs, Listener()) == []
    monkeypatch.setattr(Program, "build", lambda *_: pytest.fail("it is made once more"))
    assert _OF.create(inputs, Listener())[1] == outputs
    target = target_of(inputs["target"])
    pinned = by_digest(outputs["reference"], outputs["imageDigest"])
    assert target.digest(pinned) == outputs["imageDigest"]
    assert target.digest(f"{repository}:0") is None
    _OF.delete(state, Listener())
    assert _OF.read(state, Listener()) == outputs, "what others may run was removed"


def test_a_wrong_login_suggests_docker_login_and_hides_the_password(
    registry: RunningRegistry, tmp_path: Path
) -> None:
    entry = {registry.server: {"username": USER, "password": "not the one"}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"auths": entry}))
    target = target_of(_target(registry, credentials=str(file)))
    says = rf"access to team/a .*docker .*login {registry.server}"
    with pytest.raises(TargetError, match=says) as told:
        target.digest(f"{registry.server}/team/a:1")
    assert "not the one" not in str(told.value)


def test_a_registry_that_is_gone_is_not_up_and_has_lost_nothing(
    registry: RunningRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("images.targets.registry.LIMIT", 1.0)
    inputs = _inputs(registry, "tcp-wait")
    state = {**inputs, **_OF.create(inputs, Listener())[1]}
    gone = {**inputs["target"], "server": "127.0.0.1:9/team"}
    state["target"] = inputs["target"] = gone
    assert not target_of(gone).is_up
    assert _OF.diff(state, inputs, Listener()) == []


def test_the_login_is_in_no_command_line_and_no_file_outlives_the_push(
    registry: RunningRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in the engine's place looks at what it is given."""
    seen = tmp_path / "seen"
    engine = tmp_path / "bin" / "buildah"
    engine.parent.mkdir()
    engine.write_text(f"#!{sys.executable}\nSEEN = {str(seen)!r}\n{_LOOKER}")
    engine.chmod(0o755)
    monkeypatch.setattr("images.build.engines.answer", lambda *_command: None)
    monkeypatch.setattr(toolchain, "path", lambda _name: engine)
    archive = tmp_path / "a.tar"
    archive.touch()
    target_of(_target(registry)).load(archive, "localhost/a:1", Listener())
    command, mode, folder, file, content = seen.read_text().split("\n")
    assert command.endswith(f"localhost/a:1 docker://{registry.server}/team/a:1")
    assert (mode[-3:], folder[-3:]) == ("600", "700")
    assert not Path(file).exists()
    assert list(json.loads(content)["auths"]) == [registry.server]
    assert OTHERS not in content
    assert PASSWORD not in command
