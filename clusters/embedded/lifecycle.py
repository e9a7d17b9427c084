"""The cluster's life cycle: bring up, halt, remove. Each works from any state."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

from kubernetes import client

from clusters.embedded import components, health, host, images, isolation, network, pki, supervisor
from clusters.embedded.layout import (
    API_LIMIT,
    DNS_DOMAIN,
    DNS_SERVICE,
    PROVISIONER,
    RUNTIME_ROOT,
    Layout,
)
from clusters.embedded.takeover import taken_over
from core import files, kube, manifests
from core.manifests import Manifest
from core.problem import raised
from core.wait import until_well

_until_well = partial(until_well, limit=180)
"""Waits for a step; the time limit in seconds is sufficient for a busy machine."""
_LOCK_LIMIT = 120
"""Seconds to wait for another program that may still be changing the cluster."""
_NO_SUCH_NAME = "template ANY ANY {\n            rcode NXDOMAIN\n        }"


def bring_up(layout: Layout, report: Callable[[str], None]) -> None:
    """Bring up the cluster from any state, without interrupting parts that work, such as pods."""
    files.private_directory(layout.directory)
    started = time.monotonic()

    def reached(what: str) -> None:
        report(f"{what} ({time.monotonic() - started:.1f} s)")

    with files.locked(layout.directory / "lock", limit=_LOCK_LIMIT), taken_over(layout):
        is_running = network.is_there(layout) and supervisor.problem(layout) is None
        if not is_running:
            # Remains of the last run must not interfere.
            halt(layout)
        pki.ensure(layout)
        network.ensure(layout)
        isolation.ensure(layout)
        reached("certificates and network are there")
        components.write(layout)
        (supervisor.reload if is_running else supervisor.start)(layout)
        programs = components.components(layout)
        supervisor.run(layout, [each for each in programs if not each.calls_api])
        reached("components are started")
        with ThreadPoolExecutor() as pool:
            # Both wait for programs that have just been started, so they wait concurrently.
            clients = pool.submit(_start_clients, layout, reached)
            if loaded := images.ensure(layout):
                reached(f"images are in: {', '.join(loaded)}")
            clients.result()
        pods = layout.logs / "pods"
        _until_well(lambda: health.dns_problem(layout), what="coredns answering", log=pods)
        reached("coredns answers")
        # A part may have failed again during the waits. The API server also reports a node's former
        # condition until its kubelet has reported, which it probably has by now.
        _until_well(
            lambda: "; ".join(map(str, health.problems(layout))) or None,
            what="everything working",
            log=layout.logs,
        )


def remove(directory: Path) -> None:
    """Remove a directory's cluster, if any; `RuntimeError` or `OSError` names what remains."""
    exists = directory.exists()
    with files.locked(directory / "lock", limit=_LOCK_LIMIT) if exists else nullcontext():
        halt(Layout(directory))
        if exists:
            shutil.rmtree(directory)


def halt(layout: Layout) -> None:
    """Kill everything that runs, and keep the data, which a kill does not damage."""
    kill(layout)
    remove_groups(layout)
    network.remove(layout)
    if mounted := isolation.inside(layout):
        # Removing files in a mount would remove data that is not the cluster's.
        raise RuntimeError(f"not made by the cluster, so unmount it first: {', '.join(mounted)}")
    if layout.runtime.exists():
        shutil.rmtree(layout.runtime)
    with suppress(OSError):  # it contains other clusters' directories
        RUNTIME_ROOT.rmdir()


def kill(layout: Layout) -> None:
    """Kill all processes of the cluster, or raise `TimeoutError` with those that still run."""

    def survivors() -> str | None:
        remaining = sorted(isolation.processes(layout))
        for pid in remaining:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        named = ", ".join(map(isolation.named, remaining))
        advice = "they wait for a device or a file system; once that answers, try again"
        return f"{named} after SIGKILL: {advice}" if remaining else None

    until_well(survivors, what="end of the cluster's processes", limit=20)


def remove_groups(layout: Layout) -> None:
    """Remove the cluster's control groups, which must be empty."""

    def remove_all() -> None:
        for group in reversed(isolation.groups(layout)):
            group.rmdir()

    # A process leaves its group a moment after its end.
    until_well(partial(raised, remove_all, OSError), what="end of its control groups", limit=1)


def _start_clients(layout: Layout, reached: Callable[[str], None]) -> None:
    connection = health.connect(layout)
    log = layout.log("kube-apiserver")
    _until_well(lambda: health.readiness_problem(connection), what="API server ready", log=log)
    reached("API server is ready")
    supervisor.run(layout, components.components(layout))
    for addon in addons(layout):
        # Right after its start the API server refuses some objects until its namespaces exist.
        until_well(
            partial(health.attempt, partial(_apply, connection, addon)),
            what=f"{addon['kind']} {addon['metadata']['name']} applied",
            limit=20,
        )
    _until_well(
        lambda: health.node_problem(connection, layout),
        what=f"node {layout.node} Ready",
        log=layout.log("kubelet"),
    )
    reached("node is Ready")


def addons(layout: Layout) -> list[Manifest]:
    """Return all objects that a cluster starts with, in the order of their creation."""
    return manifests.rendered(
        Path(__file__).with_name("addons.yaml"),
        # A change of the name restarts coredns.
        corefile="Internet" if layout.internet else "Corefile",
        # coredns' handling of other names; slirp4netns forwards to the host's resolver.
        elsewhere="forward . 10.0.2.3" if layout.internet else _NO_SUCH_NAME,
        dns_domain=DNS_DOMAIN,
        dns_service=str(DNS_SERVICE),
        image=host.image_reference("coredns"),
        provisioner=PROVISIONER,
        **host.COREDNS_REQUESTS,
    )


def _apply(api: client.ApiClient, addon: Manifest) -> None:
    """Create or update an object by server-side apply."""
    version, metadata = addon["apiVersion"], addon["metadata"]
    group = "/api/v1" if version == "v1" else f"/apis/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = f"{addon['kind'].lower()}{'es' if addon['kind'].endswith('s') else 's'}"
    path = f"{group}{scope}/{plural}/{metadata['name']}"
    query = {"fieldManager": "slipway", "force": "true"}
    kube.ask(api, kube.Request("PATCH", path, query, addon, apply=True), limit=API_LIMIT)
