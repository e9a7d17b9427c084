"""Images that contain a single static program, built from the toolchain instead of pulled."""

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar

from core import tokens
from core.context import Context
from core.paths import cache_dir
from core.toolchain import Tool
from images.build.spec import DIGITS, Spec

NONROOT = "65532:65532"
ENTRYPOINTS = {"training-operator": "/manager", "tcp-wait": "/tcp-wait"}
"""The programs that every cluster needs, and their paths in the images."""


@dataclass(frozen=True)
class Program(Spec):
    """An image that contains one toolchain program; `context` is the program's path."""

    tool_version: str
    entrypoint: str
    prefix: ClassVar[str] = "slipway-"
    type: ClassVar[str] = tokens.PROGRAM

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "Program":
        return cls(inputs["name"], Path(inputs["path"]), inputs["version"], inputs["entrypoint"])

    @classmethod
    def from_tool(cls, tool: Tool, entrypoint: str) -> "Program":
        return cls(tool.name, tool.path, tool.version, entrypoint)

    @property
    def inputs(self) -> dict[str, Any]:
        tool = {"name": self.name, "path": str(self.context), "version": self.tool_version}
        return {**tool, "entrypoint": self.entrypoint, "contentHash": self.content_hash}

    @cached_property
    def content_hash(self) -> str:
        with self.context.open("rb") as file:
            program = hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(f"{self.entrypoint}\0{NONROOT}\0{program}".encode()).hexdigest()

    @property
    def version(self) -> str:
        return f"{self.tool_version}-{self.content_hash[:DIGITS]}"

    def build(self, reporter: Context) -> Path:
        """Write the archive to a new file, which the caller removes after importing it."""
        images = cache_dir() / "images"
        images.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            prefix=f"{self.repository}-", suffix=".tar", dir=images, delete=False
        ) as file:
            write_archive(file, self.reference, self.context, self.entrypoint)
        return Path(file.name)


def write_archive(file: IO[bytes], name: str, binary: Path, entrypoint: str) -> None:
    """Write a reproducible image that contains one program, in `docker save` format (v1.2)."""
    with tempfile.TemporaryFile() as layer, tarfile.open(fileobj=file, mode="w") as tar:
        with tarfile.open(fileobj=layer, mode="w") as content, binary.open("rb") as program:
            # Programs expect /tmp; webhook servers write their certificates there.
            scratch = tarfile.TarInfo("tmp")
            scratch.type, scratch.mode = tarfile.DIRTYPE, 0o1777
            content.addfile(scratch)
            add(content, entrypoint.lstrip("/"), program, mode=0o755)
        layer.seek(0)
        digest = hashlib.file_digest(layer, "sha256").hexdigest()
        config = {
            "architecture": {"x86_64": "amd64"}.get(platform.machine(), "arm64"),
            "os": "linux",
            "config": {"Entrypoint": [entrypoint], "User": NONROOT, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        config_text = json.dumps(config).encode()
        config_name = f"{hashlib.sha256(config_text).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
        add(tar, "layer.tar", layer)
        add(tar, config_name, io.BytesIO(config_text))
        add(tar, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))


def add(tar: tarfile.TarFile, name: str, content: IO[bytes], mode: int = 0o644) -> None:
    """Add a file to an archive, with the same metadata everywhere."""
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    tar.addfile(entry, content)
