"""The note that a cluster is a stack's, and the name of a cluster that is given none."""

import subprocess
from pathlib import Path

import pytest

from clusters import owner
from clusters.kinds import CLUSTERS, ClusterSettings, read_cluster
from core.paths import state_dir
from scripts.cli import down


def torn(content: bytes) -> Path:
    """Return a cluster's directory with what a crash has left of its owner's name."""
    directory = state_dir() / "clusters" / "dev"
    directory.mkdir(parents=True)
    (directory / "owner").write_bytes(content)
    return directory


@pytest.mark.parametrize("content", [b"", b"\0" * 11, b"slipway/", b"slipway/\xff\0"])
def test_an_owner_file_damaged_by_a_crash_is_repaired(content: bytes) -> None:
    directory = torn(content)
    owner.require(directory, "slipway/dev")
    owner.claim(directory, "slipway/dev")
    assert (directory / "owner").read_text() == "slipway/dev"


def test_a_note_cut_to_another_stacks_name_comes_with_the_command() -> None:
    directory = torn(b"slipway/d")
    told = f"the stack slipway/d no longer exists, run: rm {directory}/owner$"
    with pytest.raises(RuntimeError, match=told):
        owner.require(directory, "slipway/dev")


def test_make_down_prints_the_command_that_repairs_a_damaged_owner_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(down, "cluster_of", lambda _stack: {"kind": "embedded"})
    directory = torn(b"")
    assert down._cluster_directory("dev") is None
    command = capsys.readouterr().err.strip().rpartition("run this and try again: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    assert down._cluster_directory("dev") == directory


def name_of(kind: str, stack: str, **settings: object) -> str:
    read = read_cluster({"kind": kind, **settings}, "slipway:cluster", stack)
    assert isinstance(read, ClusterSettings), read
    return str(read.options.name)


@pytest.mark.parametrize("kind", ["kind", "minikube"])
def test_no_cluster_gets_the_name_that_its_tool_gives_by_default_unless_it_has_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the user's own, made without a name, and the stack's would be one."""
    assert name_of(kind, kind) == f"slipway-{kind}"
    assert name_of(kind, "team") == "team"
    assert name_of(kind, kind, adopt=True) == kind  # the user's own is what is meant
    own = CLUSTERS[kind].own
    assert own is not None
    owner.claim(own.directory(kind), f"slipway/{kind}")
    assert name_of(kind, kind) == kind
    monkeypatch.setattr(down, "cluster_of", lambda _stack: {"kind": kind})
    assert down._cluster_directory(kind) == own.directory(kind)
