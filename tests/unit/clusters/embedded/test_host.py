"""What the embedded cluster reads off the machine."""

import os
import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded import host, isolation, network
from clusters.embedded.host import filesystem, require
from clusters.embedded.layout import Layout
from core.toolchain import ToolMissing

LAYOUT = Layout(Path("/state/dev"))

VERSION_1 = b"""\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:10 - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
VERSION_2 = b"30 23 0:26 / /sys/fs/cgroup rw,nosuid,relatime - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_1s_pids_controller_or_version_2_tracks_components_or_a_remedy_is_named() -> None:
    trees = isolation.hierarchies(VERSION_1)
    assert len(trees) == 3
    assert isolation.tracking(trees).point == Path("/sys/fs/cgroup/pids")
    tree = isolation.tracking(isolation.hierarchies(VERSION_2))
    assert (tree.point, tree.kind) == (Path("/sys/fs/cgroup"), "cgroup2")
    with pytest.raises(RuntimeError, match="share the host's cgroups"):
        isolation.tracking(isolation.hierarchies(b"25 1 0:22 / /run rw - tmpfs tmpfs rw\n"))


def test_a_tree_that_is_nowhere_mounted_is_found() -> None:
    """Containerd asks for each that a process is in."""
    groups = "5:net_cls,net_prio:/\n4:pids:/a:b\n3:perf_event:/\n2:name=systemd:/\n0::/here\n"
    trees = [
        isolation.Mount(Path("/a"), "cgroup", frozenset({"rw", "pids"})),
        isolation.Mount(Path("/b"), "cgroup", frozenset({"rw", "name=systemd"})),
        isolation.Mount(Path("/c"), "cgroup2", frozenset({"rw"})),
    ]
    assert isolation.abandoned(groups, trees) == ["net_cls,net_prio", "perf_event"]


@given(st.binary(min_size=1).filter(lambda name: not {0, ord("/"), ord(".")} & {*name}))
def test_a_mount_of_any_name_inside_the_clusters_directories_counts(name: bytes) -> None:
    """Else removing the cluster would remove what is under it. Names are bytes to the kernel."""
    escaped = b"".join(b"\\%03o" % each if each in b" \t\n\\" else bytes([each]) for each in name)
    mountinfo = b"30 1 0:26 / /state/dev/%s rw - ext4 /dev/vda rw\n" % escaped
    (found,) = isolation.inside(LAYOUT, mountinfo)
    assert found == (b"/state/dev/" + name).decode(errors="backslashreplace")
    assert filesystem(Path(os.fsdecode(b"/state/dev/" + name)), mountinfo) == "ext4"
    assert len(isolation.hierarchies(mountinfo + VERSION_2)) == 1, "it hides no control group"


def test_mounts_inside_the_clusters_directories_alone_count_also_behind_a_link(
    tmp_path: Path,
) -> None:
    real = tmp_path / "Zustände" / "dev"
    real.mkdir(parents=True)
    link = tmp_path / "state"
    link.symlink_to(real.parent)
    points = ("/", real.parent, f"{real}/volumes/a", f"{real}2", "/run/netns/x")
    mountinfo = "".join(f"30 1 0:26 / {each} rw - ext4 /dev/vda rw\n" for each in points)
    assert isolation.inside(Layout(link / "dev"), mountinfo.encode()) == [f"{real}/volumes/a"]


def test_the_file_system_of_a_path_is_that_of_the_nearest_mount() -> None:
    mountinfo = b"""\
25 1 0:26 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a
26 25 8:1 / /state rw,relatime - ext4 /dev/sda rw
27 25 8:1 / /state/deep rw,relatime - xfs /dev/sdb rw
28 26 8:1 / /state rw,relatime - btrfs /dev/sdc rw
29 25 0:40 / /far rw,nosuid - fuse.sshfs me@far:/ rw,user_id=0
"""
    assert filesystem(Path("/var/lib"), mountinfo) == "overlay"
    assert filesystem(Path("/state/dev"), mountinfo) == "btrfs"
    assert filesystem(Path("/state/deep/dev"), mountinfo) == "xfs"
    assert filesystem(Path("/statement"), mountinfo) == "overlay"
    assert filesystem(Path("/far/dev"), mountinfo) == "fuse", "which overlayfs can't write to"


def _interface(name: str, address: str, prefix: int) -> dict[str, object]:
    inet = {"family": "inet", "local": address, "prefixlen": prefix}
    six = {"family": "inet6", "local": "fe80::1", "prefixlen": 64}
    return {"ifname": name, "addr_info": [inet, six]}


def test_another_interface_with_the_clusters_addresses_is_named() -> None:
    own = _interface(LAYOUT.host_interface, str(LAYOUT.host_address), 30)
    lan = _interface("eth0", "192.168.1.2", 24)
    assert network.conflict(LAYOUT, [own, lan, {}]) is None
    near = _interface("wg0", str(LAYOUT.node_address), 24)
    assert "/24; its name determines them" in str(network.conflict(LAYOUT, [own, near]))
    for vpn in (_interface("wg0", "10.77.0.1", 16), _interface("wg0", "10.1.2.3", 8)):
        assert "disconnect wg0, or use kind or" in str(network.conflict(LAYOUT, [own, vpn]))


def _unequipped(name: str) -> Path:
    raise ToolMissing(f"{name}: run `make setup`")


def test_all_obstacles_are_one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**10, 10**10, 2**29))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("core.toolchain.path", _unequipped)
    monkeypatch.setattr(host, "_free_instances", lambda: 3)
    with pytest.raises(RuntimeError) as raised:
        require(Layout(tmp_path / "new"))
    text = str(raised.value)
    assert "has 0.5 GiB free, but 2 GiB are needed" in text
    assert re.search(r"instances is \d+, with 3 free, but 25 are needed: run `make down`", text)
    assert "etcd: run `make setup`" in text
    assert "runc: run `make setup`" in text


def test_without_root_other_kinds_remain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(RuntimeError, match="use kind or minikube"):
        require(Layout(tmp_path))
