"""Builds tools from their pinned Go modules."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from core.paths import cache_dir
from scripts.setup import versions
from scripts.setup.modules import GoModule
from scripts.setup.problems import Problem
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import Step, StepFailed, Steps
from scripts.setup.tools import Tool

_BUILD_LIMIT = 3600.0  # seconds; the longest takes five minutes on two cores that are its own
_DOWNLOAD_LIMIT = 1800.0  # seconds
_NO_DEBUGGING = ("-gcflags=all=-dwarf=false",)
"""What only a debugger reads the linker strips, so that the compiler need not write it."""
_ROOMY = 12 * 2**30
"""Bytes of free memory from which on two builds run at once, and garbage may stay."""
_WITH_GARBAGE = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}
"""The compiler is a Go program: each of its processes collects garbage only from 2 GiB on."""
_INSTALL_GO = "Install a newer Go, from its own download page or your distribution."


def download(module: GoModule, steps: Steps) -> None:
    """Fetches what a module's tools are built from. What fails here, the build tells."""
    go = _go()
    if go is None or module.requires is None:
        return
    step = Step(
        title=f"Downloading the Go modules of {module.name}",
        command=(go, "mod", "download"),
        log=f"download-{module.name}",
        estimate="20 s",
        limit=_DOWNLOAD_LIMIT,
        directory=module.directory,
        environment=_environment(),
    )
    with suppress(StepFailed):
        steps.run(step)


def at_once() -> int:
    """How many builds to run at a time: linking one uses a single core, and a second needs room."""
    return 2 if _roomy() and (os.cpu_count() or 1) > 1 else 1


def build(module: GoModule, tools: Sequence[Tool], steps: Steps) -> Entries | list[Problem]:
    """Builds, or copies, those tools of a module. They all come, or none.

    Args:
        module: What they are built from.
        tools: Which of its tools are wanted.
        steps: What runs it.
    """
    why = _unfit(module)
    if why is not None:
        return [Problem(tool.name, why, _INSTALL_GO) for tool in tools]
    made: Entries = {}
    try:
        programs = [tool for tool in tools if tool.name in module.packages]
        if programs:
            for tool, path in _compile(module, programs, steps):
                made[tool.name] = Entry.of(
                    path, module.version, "built from its Go module", tool.stamp
                )
        for tool in tools:
            if tool.name in module.copies:
                path = _copy(module, tool.name)
                made[tool.name] = Entry.of(path, module.version, "from its Go module", tool.stamp)
    except (StepFailed, OSError, subprocess.SubprocessError) as error:
        remedy = "See that log; `make setup` goes on from there."
        return [Problem(tool.name, str(error), remedy) for tool in tools]
    return made


def _environment() -> dict[str, str]:
    ours = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    return {**os.environ, **ours, **(_WITH_GARBAGE if _roomy() else {})}


@cache
def _roomy() -> bool:
    """Whether this machine has memory to spare for builds."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return False
    (free,) = (int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return free * 1024 >= _ROOMY


def _go() -> str | None:
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def _unfit(module: GoModule) -> str | None:
    """Why the Go on this machine can't build the module, or None."""
    needed = ".".join(map(str, module.go_version))
    go = _go()
    if go is None:
        return f"it is built with Go {needed} or newer, and there is no `go` on PATH"
    told = _ask(go, "env", "GOVERSION", "GOTOOLCHAIN").split()
    # From 1.21 on, Go fetches the toolchain that a go.mod asks for, unless told to stay local.
    enough = "1.21" if told[-1] != "local" else needed
    if versions.parts(told[0]) < versions.parts(enough):
        return f"it is built with Go {needed} or newer, and {go} is {told[0]}"
    return None


def _compile(module: GoModule, tools: Sequence[Tool], steps: Steps) -> list[tuple[Tool, Path]]:
    """Builds into a directory of its own, then moves: a running program can't be written over."""
    bin_dir = cache_dir() / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    fresh = cache_dir() / "build" / module.name
    shutil.rmtree(fresh, ignore_errors=True)
    packages = [module.packages[tool.name] for tool in tools]
    command = (_go() or "go", "build", "-trimpath", "-buildvcs=false", *_NO_DEBUGGING)
    steps.run(
        Step(
            title=f"Building {', '.join(tool.name for tool in tools)} {module.version}",
            command=[*command, "-ldflags", module.ldflags, "-o", f"{fresh}/", *packages],
            log=f"build-{module.name}",
            estimate=module.estimate,
            limit=_BUILD_LIMIT,
            directory=module.directory,
            environment=_environment(),
        )
    )
    made = []
    for tool, package in zip(tools, packages, strict=True):
        # Go names a program after the last part of its package's path.
        built = fresh / (module.name if package == "." else Path(package).name)
        made.append((tool, built.replace(bin_dir / tool.name)))
    shutil.rmtree(fresh)
    return made


def _copy(module: GoModule, name: str) -> Path:
    """Copies a file or directory out of Go's module cache, which is read-only and shared."""
    required = module.requires or ""
    _ask(_go() or "go", "mod", "download", required, directory=module.directory)
    root = _ask(_go() or "go", "list", "-m", "-f", "{{.Dir}}", required, directory=module.directory)
    source = Path(root) / module.copies[name]
    if source.is_file():
        target = cache_dir() / "bin" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)
        return target
    target = cache_dir() / f"{module.name}-{module.version}"
    shutil.rmtree(target, ignore_errors=True)
    for directory, _, files in os.walk(source):
        copy = target / Path(directory).relative_to(source)
        copy.mkdir(parents=True)
        for file in files:
            shutil.copyfile(Path(directory, file), copy / file)
    return target


def _ask(go: str, *arguments: str, directory: Path | None = None) -> str:
    """The output of a short go command."""
    finished = subprocess.run(
        [go, *arguments],
        cwd=directory,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    return finished.stdout.strip()
