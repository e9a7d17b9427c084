"""The tools: versions that will do, Go modules, releases; tools.yaml has the table of them."""

import hashlib
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from clusters.cluster import Kind
from core.paths import CHECKOUT
from core.toolchain import numbers

WRAPPERS = CHECKOUT / "scripts" / "toolchain"
"""One Go module per directory, which pins what it builds by go.mod and go.sum."""
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""What Go calls processors, by what Python calls them."""


@dataclass(frozen=True)
class Range:
    """Versions from `minimum` on, up to but without `below`."""

    minimum: str
    below: str | None = None

    def __contains__(self, version: str) -> bool:
        is_below = self.below is None or numbers(version) < numbers(self.below)
        return is_below and numbers(version) >= numbers(self.minimum)

    def __str__(self) -> str:
        upper = "" if self.below is None else f", below {self.below}"
        return f"{self.minimum} or newer{upper}"


@dataclass(frozen=True)
class Release:
    """What a project releases, of the same version as its Go module."""

    address: str
    """Of a file, with `{version}` such as v1.34.4, `{number}` without the v, `{system}`,
    `{machine}` such as amd64 or `{cpu}` such as x64, and `{tool}`."""
    checksums: str = "{address}.sha256"
    """Of the publisher's file with SHA-256 checksums, likewise, and with `{address}`."""
    member: str | None = None  # where in that file a `{tool}` is; None where the file is the tool

    def addresses(self, version: str, tool: str) -> tuple[str, str]:
        """Return where the file is for this machine, and its publisher's checksums."""
        machine = MACHINES.get(platform.machine(), platform.machine())
        values = {"version": version, "number": version.removeprefix("v"), "tool": tool}
        values |= {"system": sys.platform, "machine": machine}
        values["cpu"] = machine.replace("amd64", "x64")
        address = self.address.format(**values)
        return address, self.checksums.format(address=address, **values)


@dataclass(frozen=True, eq=False)
class GoModule:
    """A directory of `WRAPPERS` and what comes out of it."""

    name: str
    packages: Mapping[str, str]  # what to build, by the tool's name; `.` is the wrapper itself
    estimate: str  # what a first build takes on two cores, downloads included
    requires: str | None = None  # the module whose version the tools have; None for our own sources
    stamp: Mapping[str, str] = field(default_factory=dict)
    """Variables that the linker sets, with `{version}`, `{number}`, `{major}` and `{minor}`."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files and directories of `requires` that are tools as they are, by the tool's name."""
    release: Release | None = None
    tag: str | None = None
    """The version, where go.mod pins an untagged commit or there is nothing to build."""

    @property
    def directory(self) -> Path:
        return WRAPPERS / self.name

    @cached_property
    def digest(self) -> str:
        """Changes with anything that the built program depends on."""
        parts = (self.packages, self.stamp, self.copies, *([self.tag] if self.tag else []))
        digest = hashlib.sha256(repr(parts).encode())
        for file in sorted(self.directory.glob("*")):
            digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()[:12]

    @cached_property
    def version(self) -> str:
        """What go.mod pins; for our own sources their digest, so that a change is a new version."""
        if self.tag is not None:
            return self.tag
        if self.requires is None:
            return self.digest[:8]
        pinned = self._find(rf"^(?:require)?\s+{re.escape(self.requires)} (v\S+)")
        if pinned is None:
            raise ValueError(f"{self.directory / 'go.mod'} does not require {self.requires}")
        return pinned

    @property
    def go_version(self) -> str:
        """The oldest Go that builds it: go.mod's `go` line."""
        return self._find(r"^go (\S+)$") or ""

    @property
    def ldflags(self) -> str:
        number = self.version.lstrip("v")
        major, minor, *_ = [*number.split("."), ""]
        values = {"version": self.version, "number": number, "major": major, "minor": minor}
        stamps = (f"-X {name}={value.format(**values)}" for name, value in self.stamp.items())
        return " ".join(["-s", "-w", *stamps])

    def _find(self, pattern: str) -> str | None:
        match = re.search(pattern, (self.directory / "go.mod").read_text(), re.MULTILINE)
        return None if match is None else match[1]


@dataclass(frozen=True)
class Tool:
    """One tool and where it may come from."""

    name: str  # as in `core.toolchain`, and the program's name unless it is a directory
    accepts: Range | None = None  # versions that will do; None where it can't print its own
    version_command: tuple[str, ...] = ("--version",)
    package: str | None = None  # Debian's
    unpacked: tuple[str, ...] = ()
    """Debian's packages that are unpacked for it alone; the first has the program in /usr/bin."""
    module: GoModule | None = None
    directories: tuple[Path, ...] = ()  # of a directory of programs: where distributions put it
    holds: tuple[str, ...] = ()  # of a directory of programs: those that must be in it
    beside: str | None = None  # the tool beside which it has to lie to be taken from PATH
    released_with: GoModule | None = None  # whose release it is in, where that is not `module`
    only_for_up: bool = False
    """A preview works without it: set-up continues, and `up` refuses before it creates anything."""
    hint: str = ""  # what to do when it can't be provided, where that isn't plain from the rest

    @property
    def stamp(self) -> str:
        """Changes with what this repository asks of the tool: then it is resolved again."""
        source = self.module or self.released_with
        return f"{self.accepts} {'' if source is None else source.digest}".strip()


def _module(name: str, fields: Mapping[str, Any]) -> GoModule:
    release = fields.get("release")
    return GoModule(name, **{**fields, "release": None if release is None else Release(**release)})


def _tool(fields: Mapping[str, Any]) -> Tool:
    """Return a tool, whose fields name modules and have lists for tuples."""
    found: dict[str, Any] = {
        key: tuple(each) if isinstance(each, list) else each for key, each in fields.items()
    }
    found |= {key: MODULES[found[key]] for key in ("module", "released_with") if key in found}
    if "accepts" in found:
        found["accepts"] = Range(**found["accepts"])
    found["directories"] = tuple(map(Path, found.get("directories", ())))
    return Tool(**found)


# The C loader: the file is read in every `up`.
_TABLE = yaml.load(Path(__file__).with_suffix(".yaml").read_text("utf-8"), yaml.CSafeLoader)
MODULES = {name: _module(name, fields) for name, fields in _TABLE["modules"].items()}
EVERYWHERE = tuple(map(_tool, _TABLE["everywhere"]))  # what a stack needs whatever its cluster
_OF_KINDS = {tool.name: tool for tool in map(_tool, _TABLE["of_kinds"])}


def tools_of(kind: Kind | None) -> tuple[Tool, ...]:
    """Return the tools for a kind of cluster; those of every kind where it is not known."""
    named = () if kind is None else dict.fromkeys((*kind.tools, *kind.more_tools()))
    return (*EVERYWHERE, *(_OF_KINDS[name] for name in named))
