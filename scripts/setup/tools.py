"""The tools' accepted versions, Go modules and releases, from tools.yaml."""

import hashlib
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from clusters.cluster import Kind
from core.manifests import read
from core.paths import CHECKOUT
from core.toolchain import numbers

WRAPPERS = CHECKOUT / "scripts" / "toolchain"
"""The directory with Go modules whose go.mod and go.sum pin the tools that they build."""
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""Go's names for CPU architectures, keyed by Python's names."""


@dataclass(frozen=True)
class Range:
    """Versions from `minimum` up to but not including `below`."""

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
    """A project's release, which has the same version as the Go module."""

    address: str
    """The URL of a file. Placeholders: `{version}` such as v1.34.4, `{number}` without the v,
    `{system}`, `{machine}` such as amd64, `{cpu}` such as x64, and `{tool}`."""
    checksums: str = "{address}.sha256"
    """The URL of the publisher's SHA-256 checksums; `{address}` is an additional placeholder."""
    member: str | None = None  # path of a `{tool}` in that file; None if the file is the tool

    def addresses(self, version: str, tool: str) -> tuple[str, str]:
        """Return the URLs of the file for this machine and of the publisher's checksums."""
        machine = MACHINES.get(platform.machine(), platform.machine())
        values = {"version": version, "number": version.removeprefix("v"), "tool": tool}
        values |= {"system": sys.platform, "machine": machine}
        values["cpu"] = machine.replace("amd64", "x64")
        address = self.address.format(**values)
        return address, self.checksums.format(address=address, **values)


@dataclass(frozen=True, eq=False)
class GoModule:
    """A directory in `WRAPPERS` and the tools that it builds."""

    name: str
    packages: Mapping[str, str]  # packages to build, by tool; `.` is the wrapper itself
    estimate: str  # duration of the first build on two cores, including downloads
    requires: str | None = None  # module that sets the tools' version; None for our own code
    stamp: Mapping[str, str] = field(default_factory=dict)
    """Variables for the linker to set, with `{version}`, `{number}`, `{major}` and `{minor}`."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files and directories in the module `requires` that are copied, not built, keyed by tool."""
    release: Release | None = None
    tag: str | None = None
    """The version if go.mod pins an untagged commit, or if there is nothing to build."""

    @property
    def directory(self) -> Path:
        return WRAPPERS / self.name

    @cached_property
    def digest(self) -> str:
        """A digest of everything that the built programs depend on."""
        parts = (self.packages, self.stamp, self.copies, *([self.tag] if self.tag else []))
        digest = hashlib.sha256(repr(parts).encode())
        for file in sorted(filter(Path.is_file, self.directory.rglob("*"))):
            digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()[:12]

    @cached_property
    def version(self) -> str:
        """The version that go.mod pins or, for Slipway's own code, its digest."""
        if self.tag is not None:
            return self.tag
        if self.requires is None:
            return self.digest[:8]
        return self._find(rf"^(?:require)?\s+{re.escape(self.requires)} (v\S+)")

    @property
    def go_version(self) -> str:
        """The oldest Go version that can build the module, from the `go` line in go.mod."""
        return self._find(r"^go (\S+)$")

    @property
    def ldflags(self) -> str:
        number = self.version.lstrip("v")
        major, minor, *_ = [*number.split("."), ""]
        values = {"version": self.version, "number": number, "major": major, "minor": minor}
        stamps = (f"-X {name}={value.format(**values)}" for name, value in self.stamp.items())
        return " ".join(["-s", "-w", *stamps])

    def _find(self, pattern: str) -> str:
        file = self.directory / "go.mod"
        if (match := re.search(pattern, file.read_text(), re.MULTILINE)) is None:
            raise ValueError(f"{file} does not contain {pattern}")
        return match[1]


@dataclass(frozen=True)
class Tool:
    """A tool and the sources that can provide it."""

    name: str  # as in `core.toolchain`, and the program's name unless it is a directory
    accepts: Range | None = None  # accepted versions; None if it can't print its own
    version_command: tuple[str, ...] = ("--version",)
    package: str | None = None  # its Debian package
    unpacked: tuple[str, ...] = ()
    """Debian packages to unpack for this tool; the first contains the program, in /usr/bin."""
    module: GoModule | None = None
    directories: tuple[Path, ...] = ()  # for a directory of programs: its usual locations
    holds: tuple[str, ...] = ()  # for a directory of programs: those that it must contain
    beside: str | None = None  # if on PATH, it must be next to this tool
    released_with: GoModule | None = None  # module whose release contains it, if not `module`
    only_for_up: bool = False
    """True if only `up` needs the tool. If it is missing, setup continues and `up` fails early."""
    hint: str = ""  # remedy if it can't be provided, unless that is obvious

    @property
    def stamp(self) -> str:
        """Slipway's requirements for the tool; if they change, the tool is provided again."""
        source = self.module or self.released_with
        return f"{self.accepts} {'' if source is None else source.digest}".strip()


def _tool(fields: Mapping[str, Any]) -> Tool:
    """Return a tool from its YAML fields, in which modules are names."""
    modules = {key: MODULES[fields[key]] for key in ("module", "released_with") if key in fields}
    return Tool(**{**fields, **modules})


_TABLE = read(Path(__file__).with_suffix(".yaml"))
MODULES = {name: GoModule(name, **of) for name, of in _TABLE["modules"].items()}
EVERYWHERE = tuple(map(_tool, _TABLE["everywhere"]))  # tools for all stacks
_OF_KINDS = {tool.name: tool for tool in map(_tool, _TABLE["of_kinds"])}


def tools_of(kind: Kind | None) -> tuple[Tool, ...]:
    """Return the tools for a cluster kind or, if it is None, only those that every kind needs."""
    named = () if kind is None else dict.fromkeys(kind.tools)
    return (*EVERYWHERE, *(_OF_KINDS[name] for name in named))
