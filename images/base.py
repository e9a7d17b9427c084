"""The base image: pulled where its registry can be reached, else made of Debian's packages."""

import shutil
from pathlib import Path

from core import toolchain
from images import debian
from images.engines import Engine, Plan, answer
from images.steps import BuildFailed, Runner

PUBLISHED = "docker.io/library/debian:trixie-slim"
"""What every Dockerfile here starts from."""
OWN = f"localhost/slipway-base:{debian.SUITE}"
PULL_LIMIT = 180.0
_DOCKERFILE = 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n'


def ensure(engine: Engine, runner: Runner, work: Path) -> str:
    """Return the reference of a Debian that `engine` has, after saying which it is.

    Args:
        engine: Who needs it.
        runner: Runs what it takes.
        work: A directory for what is needed meanwhile.

    Raises:
        BuildFailed: it can be neither pulled nor made.
        core.toolchain.ToolMissing: it can't be pulled, and there is no mmdebstrap.
    """
    try:
        runner.run(f"pulling {PUBLISHED}", engine.pull(PUBLISHED), PULL_LIMIT)
    except BuildFailed:
        # The log has why. Most often there is no way to the registry, which is no problem here.
        return _own(engine, runner, work)
    runner.reporter.info(f"base image {PUBLISHED}, pulled: {answer(*engine.digest(PUBLISHED))}")
    return PUBLISHED


def _own(engine: Engine, runner: Runner, work: Path) -> str:
    for earlier in (PUBLISHED, OWN):
        if answer(*engine.digest(earlier)):
            return earlier
    mirrors = debian.sources()
    origin = " and ".join(mirrors) or "Debian's own mirror"
    runner.reporter.info(
        f"base image {PUBLISHED} can't be pulled; made of Debian's packages: {origin}"
    )
    context = work / "base"
    context.mkdir()
    (context / "Dockerfile").write_text(_DOCKERFILE)
    mmdebstrap = toolchain.path("mmdebstrap")
    command = debian.bootstrap(mmdebstrap, context / "base.tar", mirrors)
    runner.run("making the base image", command)
    runner.run("taking in the base image", engine.build(Plan(context, context / "Dockerfile"), OWN))
    shutil.rmtree(context)
    return OWN
