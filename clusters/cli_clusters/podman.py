"""Slipway's own podman, for machines without a container engine.

`make setup` unpacks podman without installing it. Its files and its changes to the machine are
removed together with its last container.
https://github.com/containers/common/blob/v0.50.1/docs/containers.conf.5.md
"""

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from clusters.cli_clusters.engine import PROGRAMS, Engine
from core import files, toolchain
from core.paths import state_dir
from core.problem import raised
from core.process import run

TOOL = "podman-files"
"""The toolchain's name for podman's unpacked packages."""
TOOLS = (TOOL, "buildah", "runc", "iptables")
"""The tools that podman needs; buildah's package provides libraries and registry settings."""
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_PARAMETERS = {
    Path("/proc/sys/net/ipv4/ip_forward"): 1,
    Path("/proc/sys/net/ipv6/conf/all/forwarding"): 1,  # missing if the kernel has no IPv6
    # Several nodes need that many; the kernel's default is 128.
    # https://kind.sigs.k8s.io/docs/user/known-issues/
    _INSTANCES: 1024,
}
"""The kernel parameters to restore, and their new values."""
_MODULES = Path("/lib/modules")
"""The directory that kind and minikube mount into the nodes, so it must exist."""
_TEMPLATES = Path(__file__).with_name("podman-files")
"""Templates for podman's configuration and for the script that starts it."""


def is_provided() -> bool:
    """Return whether `make setup` has provided Slipway's own podman, and the tools it needs."""
    return raised(lambda: [*map(toolchain.path, TOOLS)], toolchain.ToolMissing) is None


def directory() -> Path:
    """Create the directory that contains podman's program, and return its path for use on PATH."""
    state = storage()
    packages = toolchain.path(TOOL)
    places = {
        "packages": packages,
        "libraries": next(packages.glob("usr/lib/*-linux-gnu"), packages),
        "state": state,
    }
    for name in ("containers.conf", "storage.conf", "bin/podman", "bin/sudo"):
        file, content = state / name, Template((_TEMPLATES / name).read_text()).substitute(places)
        if not file.exists() or file.read_text() != content:
            files.private_directory(file.parent)
            files.write(file, content, mode=0o755)
    return state / "bin"


def engine() -> Engine:
    """Return Slipway's own podman as an engine."""
    return Engine("podman", os.pathsep.join((str(directory()), os.environ.get("PATH", os.defpath))))


def choose(engines: Sequence[Engine], *, own: bool) -> Engine | None:
    """Return the first working engine, or else Slipway's podman if `own` is set and podman exists.

    If neither is available, return the first engine, so that its problem is reported, or None.
    """
    working = next((each for each in engines if each.problem() is None), None)
    if working is None and own and is_provided():
        return engine()
    return working or next(iter(engines), None)


def prepare() -> None:
    """Configure the machine for podman's nodes, after recording the machine's original state."""
    with files.locked(_note().with_suffix(".lock")):
        if _note().exists():
            before = json.loads(_note().read_text())
        else:
            before = {str(file): file.read_text() for file in _PARAMETERS if file.exists()}
            before |= {"modules": _MODULES.exists(), "deletions": _deletions(), "users": []}
        before["users"] = sorted({*before["users"], str(storage())})
        files.write(_note(), json.dumps(before), mode=0o600)
        _MODULES.mkdir(parents=True, exist_ok=True)
        if int(_INSTANCES.read_text()) < _PARAMETERS[_INSTANCES]:
            _INSTANCES.write_text(str(_PARAMETERS[_INSTANCES]))


def restore() -> None:
    """Remove podman's files if no containers are left; the last user restores the machine."""
    if not (is_provided() and storage().exists()):
        return
    with files.locked(_note().with_suffix(".lock")):
        podman = partial(run, str(directory() / "podman"), limit=60.0)
        if podman("ps", "--all", "--quiet").strip():
            return
        podman("system", "reset", "--force")
        if _note().exists():  # otherwise already restored; only queries have run since then
            _restore_machine(json.loads(_note().read_text()))
        shutil.rmtree(storage())  # last: without it, the next call would do nothing


def _restore_machine(before: dict[str, Any]) -> None:
    if users := [each for each in {*before["users"]} - {str(storage())} if Path(each).exists()]:
        files.write(_note(), json.dumps({**before, "users": users}), mode=0o600)
        return
    # Engines that the user has installed since need forwarding, and podman these rules.
    others = [name for name in PROGRAMS if Engine(name).problem() is None]
    for command in [] if "podman" in others else _deletions():
        if command not in before["deletions"]:
            run(*command)
    for file in [_INSTANCES] if others else _PARAMETERS:
        if str(file) in before and int(file.read_text()) == _PARAMETERS[file]:
            file.write_text(before[str(file)])
    if not before["modules"]:
        with suppress(OSError):  # another program has created files there since
            _MODULES.rmdir()
    _note().unlink()


def _deletions() -> list[list[str]]:
    """Return the commands that delete the firewall rules and chains that any podman created."""
    commands = []
    for program in filter(shutil.which, ("iptables", "ip6tables")):
        for line in run(f"{program}-save").splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif "NETAVARK" in line:
                first, *words = shlex.split(line)
                action = ["--delete", *words] if first == "-A" else ["--delete-chain", first[1:]]
                commands.append([program, "--table", table, *action])
    return sorted(commands, key=lambda command: command[3])  # a chain after its rules


def storage() -> Path:
    """Return the directory for the files of Slipway's own podman, which might not exist."""
    return state_dir() / "podman"


def _note() -> Path:
    """Return this network namespace's record; a reboot deletes it, and undoes what it lists."""
    return Path(f"/run/slipway-podman-{Path('/proc/self/ns/net').stat().st_ino}.json")
