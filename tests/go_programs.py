"""Programs that tests need, each built by Go from a module of the tests' own that pins it."""

import json
import re
from pathlib import Path

import pytest

from core.paths import cache_dir
from core.process import CommandFailed, run
from scripts.setup.golang import BUILD

_LIMIT_SECONDS = 3600


def version(source: Path, module: str) -> str:
    """Return the version of `module` that the go.mod in the directory `source` pins."""
    pinned = re.search(rf"{re.escape(module)} (v\S+)", (source / "go.mod").read_text())
    assert pinned is not None
    return pinned.group(1)


def built(name: str, source: Path, module: str, package: str) -> Path:
    """Return the program of `package`; Go builds it when it is not in the cache yet."""
    program = cache_dir() / "test-tools" / f"{name}@{version(source, module)}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_name(f"{program.name}.unfinished")
        _go(source, *BUILD, "-ldflags=-s -w", "-o", str(fresh), package)
        fresh.rename(program)
    return program


def content(source: Path, module: str) -> Path:
    """Return the directory with the files of `module`, in Go's own cache."""
    return Path(json.loads(_go(source, "mod", "download", "-json", module))["Dir"])


def _go(source: Path, *arguments: str) -> str:
    """Run Go for the module in `source` and return what it printed; fail the test if it fails."""
    variables = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    try:
        return run("go", *arguments, cwd=source, variables=variables, limit=_LIMIT_SECONDS)
    except CommandFailed as error:
        pytest.fail(f"this test needs Go, see README.md: {error}", pytrace=False)
