"""The proof that nothing is left finds whatever is left: it is shown something of each kind."""

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core import toolchain
from tests.engine.footprint import Baseline, Footprint

NAMESPACE = f"slw-test-{os.getpid()}"
TABLE = f"slw_test_{os.getpid()}"
PATIENCE_SECONDS = 2 * 60
"""What others on this machine begin or end meanwhile is nobody's for a moment."""


@pytest.fixture
def nft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program nft in a network namespace of its own: no other test meets its tables."""
    apart = f"slw-apart-{os.getpid()}"
    _ip("netns", "add", apart)
    program = tmp_path_factory.mktemp("nft") / "nft"
    program.write_text(f'#!/bin/sh\nexec ip netns exec {apart} {toolchain.path("nft")} "$@"\n')
    program.chmod(0o755)
    yield program
    _ip("netns", "delete", apart)


@pytest.fixture
def baseline(nft: Path) -> Baseline:
    return Baseline.take(nft)


@pytest.fixture
def link() -> str:
    """A name of this test's own: a link goes a little later than its namespace."""
    return f"slwt{secrets.token_hex(4)}"


@pytest.fixture
def process(tmp_path: Path, link: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that works in the directory, in a network namespace with a link to the host."""
    _ip("netns", "add", NAMESPACE)
    _ip("link", "add", link, "type", "veth", "peer", "name", "uplink", "netns", NAMESPACE)
    sleep = subprocess.Popen(
        ["ip", "netns", "exec", NAMESPACE, "sleep", "600"], cwd=tmp_path, stdout=subprocess.PIPE
    )
    yield sleep
    sleep.kill()
    sleep.communicate()
    _ip("netns", "delete", NAMESPACE)


@pytest.fixture
def footprint(
    baseline: Baseline,  # noqa: ARG001 - it is taken before there is anything
    process: subprocess.Popen[bytes],
    tmp_path: Path,
) -> Footprint:
    inode = (Path("/run/netns") / NAMESPACE).stat().st_ino
    while Path(f"/proc/{process.pid}/ns/net").stat().st_ino != inode:
        assert process.poll() is None
    return Footprint.take(tmp_path)


def kinds(left: list[str], *marks: str) -> set[str]:
    """Return of what kinds the lines are that have one of the marks: other tests go on beside."""
    own = [line for line in left if any(mark in line for mark in marks)]
    return {line.partition(":")[0].partition(" ")[0] for line in own}


def test_a_process_a_namespace_and_a_device_are_found(
    footprint: Footprint, baseline: Baseline, nft: Path, link: str
) -> None:
    left = footprint.left(baseline, nft)
    marks = (str(footprint.directory), NAMESPACE, link)
    assert kinds(left, *marks) == {"process", "network", "mount"}
    assert any(NAMESPACE in line for line in left)
    assert any(link in line for line in left)


def test_nothing_is_found_once_all_is_gone(
    footprint: Footprint,
    baseline: Baseline,
    nft: Path,
    process: subprocess.Popen[bytes],
) -> None:
    process.kill()
    process.wait()
    _ip("netns", "delete", NAMESPACE)
    try:
        assert footprint.left(baseline, nft, PATIENCE_SECONDS) == []
    finally:
        _ip("netns", "add", NAMESPACE)


@pytest.mark.parametrize("kind", ["mount", "nftables", "file"])
def test_what_is_left_outside_of_processes_is_found(
    kind: str, baseline: Baseline, nft: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    footprint = Footprint.take(tmp_path)
    leave: dict[str, Callable[[], None]] = {
        "mount": lambda: _mount(tmp_path, request),
        "nftables": lambda: _table(nft, request),
        "file": lambda: _namespace_file(request),
    }
    assert footprint.left(baseline, nft, PATIENCE_SECONDS) == []
    leave[kind]()
    marks = (str(tmp_path), NAMESPACE, TABLE)
    assert kinds(footprint.left(baseline, nft), *marks) == {kind}


def _mount(directory: Path, request: pytest.FixtureRequest) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    request.addfinalizer(lambda: subprocess.run(["umount", directory], check=True))


def _table(nft: Path, request: pytest.FixtureRequest) -> None:
    subprocess.run([nft, "add", "table", "inet", TABLE], check=True)
    request.addfinalizer(
        lambda: subprocess.run([nft, "delete", "table", "inet", TABLE], check=True)
    )


def _namespace_file(request: pytest.FixtureRequest) -> None:
    _ip("netns", "add", NAMESPACE)
    request.addfinalizer(lambda: _ip("netns", "delete", NAMESPACE))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
