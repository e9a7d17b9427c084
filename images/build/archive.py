"""Builds an image into an archive in the cache, once for each content."""

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from core import files
from core.paths import build_log
from images.build import debian, engines
from images.build.engines import Engine, answer
from images.build.runner import Reporter, Runner
from images.build.spec import BuildSpec

_REMOVE_LIMIT = 60.0


def build(spec: BuildSpec, reporter: Reporter) -> Path:
    """Return the archive of `spec`; build it unless it is in the cache.

    Raises:
        images.build.runner.BuildFailed: a step failed; with the end of its log.
        images.datasets.dataset.NotAvailable: a data set can't be fetched.
        core.files.Cancelled: the user stopped the program.
        core.toolchain.ToolMissing: no program to build with is installed.
        TimeoutError: another build did not end.
    """
    spec.settle(reporter)
    if spec.archive.exists():
        return spec.archive
    with files.locked(
        spec.archive.parent / "lock",
        cancelled=reporter.cancelled,
        waiting=lambda: reporter.status("waiting for another build to end"),
    ):
        # The other build may have been for the same content.
        if not spec.archive.exists():
            _build(spec, reporter)
    return spec.archive


def _build(spec: BuildSpec, reporter: Reporter) -> None:
    began = time.monotonic()
    images = spec.archive.parent
    with _work(images / "work") as work:
        engine = engines.choose(images / "storage", work)
        reporter.info(f"building {spec.reference} with {engine.name}: {spec.estimate} in {images}")
        proxies = debian.proxies()
        runner = Runner.of(build_log(spec.repository), reporter, {"TMPDIR": str(work), **proxies})
        for command in engine.tidy():
            runner.run("tidying up", command)
        plan = spec.prepare(engine, runner, work)
        finished = work / "image.tar"
        plan = replace(plan, arguments=(*plan.arguments, *proxies))
        runner.run(f"building {spec.repository}", engine.build(plan, spec.reference))
        runner.run(f"writing {spec.repository}", engine.save(spec.reference, finished))
        finished.replace(spec.archive)
        _forget_others(spec, engine)
    size = spec.archive.stat().st_size / 1e6
    reporter.info(f"built {spec.reference} in {time.monotonic() - began:.0f} s, {size:.0f} MB")


@contextmanager
def _work(directory: Path) -> Iterator[Path]:
    """Yield an empty directory; what a build that was killed left in it goes, too."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _forget_others(spec: BuildSpec, engine: Engine) -> None:
    """Remove the images and archives of other contents of the same name."""
    # Not by `<name>-*`: that is how another image's name may go on.
    ours = re.compile(re.escape(spec.repository) + r"-[0-9a-f]+\.tar")
    for archive in spec.archive.parent.iterdir():
        if ours.fullmatch(archive.name) and archive != spec.archive:
            archive.unlink()
    prefix = spec.reference.rpartition(":")[0]
    for name in (answer(*engine.names()) or "").split():
        if name.startswith(f"{prefix}:") and name != spec.reference:
            answer(*engine.remove(name), limit=_REMOVE_LIMIT)
    for command in engine.prune():
        answer(*command, limit=_REMOVE_LIMIT)
