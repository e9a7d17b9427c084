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

from clusters.cli_clusters.engine import PROGRAMS, Engine
from core import files, toolchain
from core.paths import state_dir
from core.problem import raised
from core.process import run

TOOL = "podman-files"
"""The toolchain's name for podman's unpacked packages."""
TOOLS = (TOOL, "buildah", "runc", "iptables")
"""The tools that podman needs; buildah's package provides libraries and registry settings."""
_PARAMETERS = {
    "forwarding": (Path("/proc/sys/net/ipv4/ip_forward"), 1),
    # Several nodes need that many; the kernel's default is 128.
    # https://kind.sigs.k8s.io/docs/user/known-issues/
    "instances": (Path("/proc/sys/fs/inotify/max_user_instances"), 1024),
}
"""The kernel parameters to restore, keyed by their names in the record, and their new values."""
_MODULES = Path("/lib/modules")
"""The directory that kind and minikube mount into the nodes, so it must exist."""
_TABLES = ("nat", "filter")
_TEMPLATES = Path(__file__).with_name("podman-files")
"""Templates for podman's configuration and for the script that starts it."""


def is_provided() -> bool:
    """Return whether `make setup` has unpacked Slipway's own podman."""
    return raised(partial(toolchain.path, TOOL), toolchain.ToolMissing) is None


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
            file.write_text(content)
            file.chmod(0o755)
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
    files.private_directory(_note().parent)
    with files.locked(_note().with_suffix(".lock")):
        if not _note().exists():
            parameters = {name: file.read_text().strip() for name, (file, _) in _PARAMETERS.items()}
            before = {**parameters, "modules": _MODULES.exists(), "rules": _rules()}
            _note().write_text(json.dumps(before))
        _MODULES.mkdir(parents=True, exist_ok=True)
        instances, enough = _PARAMETERS["instances"]
        if int(instances.read_text()) < enough:
            instances.write_text(str(enough))


def restore() -> None:
    """Restore the machine's state from before `prepare`, unless any containers are left."""
    if not (is_provided() and (_note().exists() or storage().exists())):
        return
    with files.locked(_note().with_suffix(".lock")):
        podman = partial(run, str(directory() / "podman"), limit=60.0)
        if podman("ps", "--all", "--quiet").strip():
            return
        podman("volume", "prune", "--force")
        podman("network", "prune", "--force")
        podman("system", "reset", "--force")
        shutil.rmtree(storage())
        if not _note().exists():  # already restored; only queries have run since then
            return
        before = json.loads(_note().read_text())
        # Engines that the user has installed since need forwarding, and podman these rules.
        others = [name for name in PROGRAMS if Engine(name).problem() is None]
        for table, line in [] if "podman" in others else _rules():
            if [table, line] not in before["rules"]:
                kind, *words = shlex.split(line)
                action = "--delete-chain" if kind == "-N" else "--delete"
                run("iptables", "--table", table, action, *words)
        for name, (parameter, new) in _PARAMETERS.items():
            if int(parameter.read_text()) == new and not (others and name == "forwarding"):
                parameter.write_text(before[name])
        if not before["modules"]:
            with suppress(OSError):  # another program has created files there since
                _MODULES.rmdir()
        _note().unlink()


def _rules() -> list[list[str]]:
    """Return the rules and chains that any podman created, as pairs of table and iptables line."""
    if shutil.which("iptables") is None:
        return []
    lines = ((table, run("iptables", "--table", table, "--list-rules")) for table in _TABLES)
    rules = [
        [table, line] for table, text in lines for line in text.splitlines() if "NETAVARK" in line
    ]
    return sorted(rules, key=lambda rule: rule[1].startswith("-N"))  # a chain after its rules


def storage() -> Path:
    """Return the directory for the files of Slipway's own podman, which might not exist."""
    return state_dir() / "podman"


def _note() -> Path:
    return state_dir() / "podman.json"
