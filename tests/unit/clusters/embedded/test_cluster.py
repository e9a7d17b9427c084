"""What an embedded cluster has on the machine, and that what is left of it is found there."""

import os
import resource
from pathlib import Path

import pytest

from clusters.embedded import cluster, isolation
from clusters.embedded.layout import Layout


def test_systemd_oomd_is_asked_to_spare_the_components(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path / "dev")
    asked: list[tuple[Path, str, bytes]] = []
    for group in (tmp_path, tmp_path / layout.node):
        group.mkdir(exist_ok=True)
        (group / "cgroup.subtree_control").touch()
        (group / "cgroup.controllers").touch()
    tree = isolation.Mount(tmp_path, "cgroup2", frozenset())
    monkeypatch.setattr(isolation, "hierarchies", lambda: [tree])
    monkeypatch.setattr(isolation, "abandoned", lambda *_: [])
    monkeypatch.setattr(os, "setxattr", lambda *given: asked.append(given))
    isolation.ensure(layout)
    assert asked == [(tmp_path / layout.node / "system", "user.oomd_avoid", b"1")]


@pytest.mark.parametrize(("hard", "soft"), [(2**20, 65536), (4096, 4096)])
def test_ranks_may_open_many_files_whichever_shell_started_the_cluster(
    hard: int, soft: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the hard limit allows: in a container, root can't raise that."""
    done: list[object] = []
    monkeypatch.setattr(isolation, "join", lambda _: None)
    monkeypatch.setattr(isolation, "establish", lambda _: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: done.append(limits))
    monkeypatch.setattr(os, "execv", lambda *_: done.append("supervisord"))
    monkeypatch.setattr("sys.argv", ["isolation", "/state/dev"])
    isolation.main()
    assert done == [(soft, hard), "supervisord"]


def test_whatever_is_left_is_found_with_how_to_remove_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path / "clusters" / "dev")
    tree = isolation.Mount(tmp_path / "cgroup", "cgroup2", frozenset())
    group = tree.point / layout.node
    (group / "system").mkdir(parents=True)
    (group / "system" / "cgroup.procs").write_text("4194305\n")
    monkeypatch.setattr(isolation, "hierarchies", lambda: [tree])
    layout.directory.mkdir(parents=True)
    layout.network_namespace = tmp_path / layout.node
    layout.network_namespace.touch()
    interfaces, link = tmp_path / "net", layout.host_interface
    (interfaces / link).mkdir(parents=True)
    monkeypatch.setattr(cluster, "_INTERFACES", interfaces)
    volume = f"{layout.directory}/volumes/a"
    monkeypatch.setattr(isolation, "inside", lambda _layout: [volume])
    monkeypatch.chdir(layout.directory)  # as a user's shell may
    assert cluster.left_on_machine(layout) == {
        "processes": ["process 4194305: kill -9 4194305"],
        "network namespaces": [f"network namespace {layout.node}: ip netns delete {layout.node}"],
        "mounts": [f"mount {volume}: umount {volume}"],
        "control groups": [f"control group {group}: find {group} -depth -type d -delete"],
        "interfaces": [f"interface {link}: ip link delete {link}"],
        "files": [f"{layout.directory}: rm -r {layout.directory}"],
    }
