"""Build tools from pinned Go modules."""

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from core.paths import cache_dir
from core.process import CommandFailed, run
from core.toolchain import numbers
from images.build.program import ENTRYPOINTS
from scripts.setup.record import Entry, Problem, Results
from scripts.setup.steps import StepFailed, Steps
from scripts.setup.tools import GoModule, Tool

# The linker strips debug information, so the compiler need not write it. Inlining takes a quarter
# of the compile time, and is worth it only for the standard library.
BUILD = (
    *("build", "-trimpath", "-buildvcs=false"),
    *("-gcflags=all=-dwarf=false -l", "-gcflags=std=-dwarf=false"),
)


def download(module: GoModule, steps: Steps) -> None:
    """Download a module's dependencies. Failures are ignored, as the build will report them."""
    go = _go()
    if go is None or module.requires is None:
        return
    with suppress(StepFailed):
        steps.run(
            f"Downloading the Go modules for {module.name}",
            (go, "mod", "download"),
            log=f"download-{module.name}",
            estimate="20 s",
            limit=1800.0,
            cwd=module.directory,
            variables=_variables(),
        )


def build(module: GoModule, tools: Sequence[Tool], steps: Steps) -> Results:
    """Build or copy tools from a module; if one fails, none is provided."""
    go = _go()
    why = _unfit(go, module)
    if go is None or why is not None:
        remedy = "Install a newer Go, from its download page or your distribution."
        return {tool.name: Problem(tool.name, str(why), remedy) for tool in tools}
    names = [tool.name for tool in tools]
    try:
        paths = _compile(go, module, [name for name in names if name in module.packages], steps)
        paths |= {name: _copy(go, module, name) for name in names if name in module.copies}
    except (StepFailed, OSError, CommandFailed) as error:
        remedy = "Fix the cause, then run `make setup` again; tools that are ready are kept."
        return {tool.name: Problem(tool.name, str(error), remedy) for tool in tools}
    entries = {}
    for tool in tools:
        origin = f"{'built ' if tool.name in module.packages else ''}from its Go module"
        entries[tool.name] = Entry.from_file(paths[tool.name], module.version, origin, tool.stamp)
    return entries


def _variables() -> dict[str, str]:
    ours = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    # The compiler is a Go program; with these, its processes collect garbage only above 2 GiB.
    return {**ours, **({"GOGC": "off", "GOMEMLIMIT": "2GiB"} if _roomy() else {})}


@cache
def _roomy() -> bool:
    """Return whether this machine has 12 GiB of free memory, enough for little collection."""
    try:
        free = re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text())
    except OSError:
        return False
    return free is not None and int(free[1]) * 1024 >= 12 * 2**30


def _go() -> str | None:
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def _unfit(go: str | None, module: GoModule) -> str | None:
    """Return why this Go can't build the module, or None if it can."""
    needed = f"building it requires Go {module.go_version} or newer"
    if go is None:
        return f"{needed}, but there is no `go` on PATH"
    version = _run(go, "env", "GOVERSION")
    # Since 1.21, Go downloads the toolchain that a go.mod requires, or says why it can't.
    return None if numbers(version) >= (1, 21) else f"{needed}, but {go} is {version}"


def _compile(go: str, module: GoModule, names: Sequence[str], steps: Steps) -> dict[str, Path]:
    """Build programs and return their paths by name, replacing old ones that may be running."""
    if not names:
        return {}
    bin_dir = cache_dir() / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    directory = cache_dir() / "build" / module.name
    shutil.rmtree(directory, ignore_errors=True)
    packages = [module.packages[name] for name in names]
    in_images = ENTRYPOINTS.keys() & set(names)  # these run on Linux, whatever this machine runs
    steps.run(
        f"Building {', '.join(names)} {module.version}",
        (go, *BUILD, "-ldflags", module.ldflags, "-o", f"{directory}/", *packages),
        log=f"build-{module.name}",
        estimate=module.estimate,
        limit=3600.0,  # the longest build takes five minutes on two idle cores
        cwd=module.directory,
        variables={**_variables(), **({"GOOS": "linux"} if in_images else {})},
    )
    programs = {}
    for name, package in zip(names, packages, strict=True):
        # Go names a program after the last element of its package path, ignoring major versions.
        path = Path(re.sub(r"/v\d+$", "", package))
        built = directory / (module.name if package == "." else path.name)
        programs[name] = built.replace(bin_dir / name)
    shutil.rmtree(directory)
    return programs


def _copy(go: str, module: GoModule, name: str) -> Path:
    """Copy a file or directory out of Go's module cache, which is read-only and shared."""
    command = ("mod", "download", "-json", module.requires or "")
    source = Path(json.loads(_run(go, *command, cwd=module.directory))["Dir"], module.copies[name])
    if source.is_file():
        target = cache_dir() / "bin" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)
        return target
    target = cache_dir() / f"{module.name}-{module.version}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for directory in (target, *filter(Path.is_dir, target.rglob("*"))):
        directory.chmod(0o755)
    return target


def _run(go: str, *arguments: str, cwd: Path | None = None) -> str:
    return run(go, *arguments, variables=_variables(), cwd=cwd, limit=300).strip()
