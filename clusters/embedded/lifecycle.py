"""The cluster's life: brought up, stopped, removed. Each works on whatever state it finds."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from clusters.embedded import (
    addons,
    api,
    cgroups,
    config_files,
    health,
    images,
    mounts,
    network,
    pki,
    supervisor,
)
from clusters.embedded.components import components
from clusters.embedded.host import Host, examine, require
from clusters.embedded.layout import RUNTIME_ROOT, Layout
from core import files
from core.wait import until_well

API_LIMIT = 180
NODE_LIMIT = 180
DNS_LIMIT = 180
HEALTH_LIMIT = 180
_LOCK_LIMIT = 120
"""Seconds, of which a machine that is busy with other things takes some."""

Report = Callable[[str], None]
"""Takes a line about what has been reached."""


@dataclass
class _Stopwatch:
    report: Report
    started: float = field(default_factory=time.monotonic)

    def reached(self, what: str) -> None:
        self.report(f"{what} ({time.monotonic() - self.started:.1f} s)")


def _alone(layout: Layout) -> AbstractContextManager[None]:
    """Keep others away: a program that was left behind may still be at work on the cluster."""
    return files.locked(layout.directory / "lock", limit=_LOCK_LIMIT)


def bring_up(layout: Layout, report: Report) -> None:
    """Make the cluster work: a new one, a half-made one, a stopped one, a broken one.

    What works already is left alone, so running pods go on.

    Raises:
        Unsuitable: this machine can't run it; nothing was changed.
        TimeoutError: a step took too long; with the last problem.
        CommandFailed: a program refused; names it, with its reason.
    """
    require(layout)
    host = examine(layout)
    files.private_directory(layout.directory)
    with _alone(layout):
        clock = _Stopwatch(report)
        if health.displaced(layout, host) or not cgroups.components(layout):
            # Nothing can go on: what is left of the last time must not get in the way.
            halt(layout, host)
        pki.ensure(layout)
        network.ensure(layout, host)
        cgroups.ensure(layout)
        clock.reached("certificates and network are there")
        _run_components(layout, host)
        clock.reached("components are started")
        with ThreadPoolExecutor() as pool:
            # Both wait for what has just been started, so they wait side by side.
            for task in [
                pool.submit(_await_images, layout, host, clock),
                pool.submit(_await_api, layout, host, clock),
            ]:
                task.result()
        until_well(
            lambda: health.dns_problem(layout, host),
            what="coredns answering",
            limit=DNS_LIMIT,
            log=layout.logs / "pods",
        )
        clock.reached("coredns answers")
        # What began the wait may have failed since. Of a node the API server reports what was true
        # last time until its kubelet has reported: mostly, but not surely, it has by now.
        until_well(
            lambda: "; ".join(map(str, health.problems(layout, host))) or None,
            what="everything working",
            limit=HEALTH_LIMIT,
            log=layout.logs,
        )


def stop(layout: Layout) -> None:
    """End everything that runs and keep the data, as a reboot does."""
    with _alone(layout):
        halt(layout, examine(layout))


def remove(layout: Layout) -> None:
    """Remove the cluster and its data; succeeds when it does not exist.

    Raises:
        RuntimeError: a process, a mount or a part of the network can't be removed; names it.
        OSError: the kernel still holds a control group or a file.
    """
    host = examine(layout)
    if layout.directory.exists():
        with _alone(layout):
            halt(layout, host)
            shutil.rmtree(layout.directory)
    else:
        halt(layout, host)


def halt(layout: Layout, host: Host) -> None:
    """End everything that runs, and keep the data; succeeds when nothing does.

    The mounts end with the processes that see them. Killing is safe: etcd and containerd write
    their data so that a power cut costs nothing.

    Raises:
        RuntimeError: something else is mounted inside the cluster's directories.
    """
    cgroups.kill(layout)
    cgroups.remove(layout)
    network.remove(layout, host)
    if mounted := mounts.inside(layout):
        # Removing what is under a mount would remove data that is not the cluster's.
        raise RuntimeError(f"not made by the cluster, so unmount it first: {', '.join(mounted)}")
    if layout.runtime.exists():
        shutil.rmtree(layout.runtime)
    if RUNTIME_ROOT.exists() and not any(RUNTIME_ROOT.iterdir()):
        RUNTIME_ROOT.rmdir()


def _run_components(layout: Layout, host: Host) -> None:
    all_of_them = components(layout, host)
    config_files.write(layout, host, all_of_them)
    try:
        supervisor.reload(layout)
    except supervisor.Unreachable:
        supervisor.start(layout, host)
    supervisor.run(layout, [each for each in all_of_them if not each.calls_api])


def _await_images(layout: Layout, host: Host, clock: _Stopwatch) -> None:
    if made := images.ensure(layout, host):
        clock.reached(f"images are in: {', '.join(made)}")


def _await_api(layout: Layout, host: Host, clock: _Stopwatch) -> None:
    connection = api.connect(layout)
    until_well(
        lambda: api.readiness_problem(connection),
        what="API server ready",
        limit=API_LIMIT,
        log=layout.log("kube-apiserver"),
    )
    clock.reached("API server is ready")
    supervisor.run(layout, components(layout, host))
    api.apply(layout, connection, addons.manifests(host))
    until_well(
        lambda: api.node_problem(connection, layout),
        what=f"node {layout.node} Ready",
        limit=NODE_LIMIT,
        log=layout.log("kubelet"),
    )
    clock.reached("node is Ready")
