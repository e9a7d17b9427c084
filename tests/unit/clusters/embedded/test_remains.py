"""What is left of an embedded cluster is found by looking at the machine."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.embedded import cgroups, remains
from clusters.embedded.layout import Layout
from clusters.embedded.remains import remains as search
from core.process import CommandFailed


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A cluster that never was."""
    return Layout(tmp_path / "clusters" / "dev")


@pytest.fixture
def stray(layout: Layout) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that only its arguments tell to be the cluster's."""
    command = ["sh", "-c", "sleep 60; true", f"--data-dir={layout.directory}/etcd"]
    with subprocess.Popen(command, start_new_session=True) as process:
        deadline = time.monotonic() + 10
        while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            assert time.monotonic() < deadline
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def test_nothing_is_found_of_a_cluster_that_never_was(layout: Layout) -> None:
    found = search(layout)
    assert {"processes", "network namespaces", "mounts", "control groups", "files"} <= found.keys()
    assert not any(found.values()), found


def test_a_process_with_the_clusters_directory_is_found_and_how_to_end_it(
    layout: Layout, stray: "subprocess.Popen[bytes]"
) -> None:
    (line,) = search(layout)["processes"]
    assert line == f"process {stray.pid} (sh): kill -9 {stray.pid}"


@pytest.mark.parametrize(
    ("whereabouts", "is_found"),
    [
        ("/state/dev/etcd", True),
        ("cwd=/state/dev (deleted)", True),
        ("/state/dev-2/etcd", False),
        ("/state/dev2", False),
    ],
)
def test_a_neighbor_whose_name_begins_alike_is_not_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, whereabouts: str, is_found: bool
) -> None:
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "cmdline").write_text(f"etcd\0{whereabouts}\0")
    monkeypatch.setattr(remains, "others", lambda: [tmp_path / "4711"])
    assert bool(search(Layout(Path("/state/dev")))["processes"]) == is_found


def test_who_looks_is_not_found(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.directory.mkdir(parents=True)
    monkeypatch.chdir(layout.directory)
    found = search(layout)
    assert found["processes"] == []
    assert found["files"] == [f"{layout.directory}: rm -r {layout.directory}"]


def test_control_groups_are_found_wherever_they_are(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = cgroups.Hierarchy(tmp_path / "cgroup", frozenset(), 2)
    group = tree.root / "docker" / "abc" / layout.node / "system"
    group.mkdir(parents=True)
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tree])
    (line,) = search(layout)["control groups"]
    assert str(group.parent) in line


def test_what_may_not_be_looked_at_is_not_said_to_be_gone(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_command: str) -> str:
        raise CommandFailed("`nft` failed with 1: Operation not permitted")

    monkeypatch.setattr(remains, "run", refuse)
    found = search(layout)
    assert "firewall rules" not in found
    assert "interfaces" not in found
    assert "processes" in found


@pytest.mark.parametrize(
    ("listing", "names"),
    [
        ('[{"ifname": "lo", "addr_info": []}, {}]', []),
        ('[{"ifname": "slw{id}", "addr_info": []}]', ["slw{id}"]),
        ('[{"ifname": "x", "addr_info": [{"family": "inet", "local": "{address}"}]}]', ["x"]),
        ('[{"ifname": "x", "addr_info": [{"family": "inet", "local": "10.0.0.1"}]}]', []),
    ],
)
def test_an_interface_is_found_by_its_name_or_its_address(
    layout: Layout, listing: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(text: str) -> str:
        return text.replace("{id}", layout.id).replace("{address}", str(layout.host_address))

    monkeypatch.setattr(
        remains, "run", lambda *command: filled(listing) if "address" in command else ""
    )
    found = search(layout)["interfaces"]
    assert [line.split()[-1] for line in found] == [filled(name) for name in names]


def test_this_process_is_not_among_those_that_are_looked_at() -> None:
    numbers = {int(path.name) for path in remains.others()}
    assert not {os.getpid(), os.getppid()} & numbers
    assert numbers
