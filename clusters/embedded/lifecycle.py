"""The embedded cluster's life cycle: bring up, halt and remove. Each works from any state.

An older Kubernetes version's data is backed up before a newer version writes to it.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from kubernetes import client

from clusters.embedded import components, health, host, images, isolation, network, pki, supervisor
from clusters.embedded.layout import API_LIMIT, DNS_DOMAIN, DNS_SERVICE, PROVISIONER, Layout
from core import files, kube, manifests, toolchain
from core.manifests import Manifest
from core.problem import raised
from core.toolchain import numbers
from core.wait import until_well

_until_well = partial(until_well, limit=180)
"""Waits for a step; its timeout of 180 s is long enough for a busy machine."""
_LOCK_LIMIT = 120
"""Seconds to wait for another program that may still be changing the cluster."""
_NO_SUCH_NAME = "template ANY ANY {\n            rcode NXDOMAIN\n        }"
_OLDEST = "v1.34"
"""The oldest version whose data is accepted, also assumed if the version is not recorded."""


def bring_up(layout: Layout, report: Callable[[str], None]) -> None:
    """Bring up the cluster from any state, without interrupting pods or other working parts."""
    files.private_directory(layout.directory)
    started = time.monotonic()

    def reached(what: str) -> None:
        report(f"{what} ({time.monotonic() - started:.1f} s)")

    with files.locked(layout.directory / "lock", limit=_LOCK_LIMIT), taken_over(layout):
        is_running = network.is_there(layout) and supervisor.problem(layout) is None
        if not is_running:
            # Leftovers from the last run must not interfere.
            halt(layout)
        pki.ensure(layout)
        network.ensure(layout)
        isolation.ensure(layout)
        reached("certificates and network are ready")
        components.write(layout)
        (supervisor.reload if is_running else supervisor.start)(layout)
        programs = components.components(layout)
        supervisor.run(layout, [each.name for each in programs if not each.calls_api])
        reached("components have started")
        with ThreadPoolExecutor() as pool:
            # Both wait for programs that have just been started, so they wait concurrently.
            clients = pool.submit(_start_clients, layout, reached)
            if loaded := images.ensure(layout):
                reached(f"images are loaded: {', '.join(loaded)}")
            clients.result()
        api, pods = health.connect(layout), layout.logs / "pods"
        _until_well(lambda: health.dns_problem(api, layout), what="coredns to respond", log=pods)
        reached("coredns is responding")
        # A part may have failed again since. The API server also reports a node's old condition
        # until its kubelet reports, which it probably has by now.
        _until_well(
            lambda: "; ".join(map(str, health.problems(layout))) or None,
            what="all parts of the cluster to work",
            log=layout.logs,
        )


def older_versions(layout: Layout) -> list[str]:
    """Return older versions that wrote the data, or raise `RuntimeError` if it can't be used."""
    if not (layout.directory / "etcd").exists():
        return []
    written = layout.written_by.read_text().split() if layout.written_by.exists() else [_OLDEST]
    new = toolchain.tool("kube-apiserver").version
    if numbers(written[-1])[:2] > numbers(new)[:2] or numbers(written[0]) < numbers(_OLDEST):
        raise RuntimeError(
            f"{layout.directory} contains data from Kubernetes {written[-1]}, but {new} accepts "
            f"only data from {_OLDEST} up to its own minor version. Nothing was changed: run "
            "`make up` with the version of Slipway that created the cluster, or `make down`, which "
            "deletes all data"
        )
    return written if numbers(written[0])[:2] < numbers(new)[:2] else []


@contextmanager
def taken_over(layout: Layout) -> Iterator[None]:
    """Back up an older version's data before the cluster starts; errors say how to restore it."""
    written, new = older_versions(layout), toolchain.tool("kube-apiserver").version
    data, copy = layout.directory / "etcd", layout.directory / f"etcd-{[*written, new][0]}"
    if len(written) == 1:  # with two, the newer version has started and may have changed the data
        _back_up(layout, data, copy)
    files.write(layout.written_by, " ".join([*written[:1], new]), mode=0o600)
    try:
        yield
    except Exception as error:
        if not written:
            raise
        supervisor.stop(layout, "kube-apiserver", "etcd")
        raise RuntimeError(
            f"{error}\nKubernetes {new} did not start with the data from {written[0]}, which is "
            f"backed up in {copy}. `make up` tries again. To go back, run the following, then run "
            "`make up` with the version of Slipway that created the cluster:\n"
            f"  rm -r {data} && mv {copy} {data} && rm {layout.written_by}"
        ) from error
    files.write(layout.written_by, new, mode=0o600)


def _back_up(layout: Layout, data: Path, copy: Path) -> None:
    """Stop etcd and copy its data, or start it again and raise `RuntimeError`."""
    supervisor.stop(layout, "kube-apiserver", "etcd")
    shutil.rmtree(copy, ignore_errors=True)  # of an interrupted attempt
    # 1 GiB is left for the new version: with less than 500 MiB, pods would be evicted.
    needed = sum(file.stat().st_size for file in data.rglob("*")) + 2**30
    free = shutil.disk_usage(data).free
    short = f"{free / 2**30:.1f} GiB are free, but {needed / 2**30:.1f} GiB are needed"
    problem = short if free < needed else raised(partial(shutil.copytree, data, copy), OSError)
    if problem is None:
        os.sync()  # a power cut must not leave only the newer version's data
        return
    shutil.rmtree(copy, ignore_errors=True)
    with suppress(supervisor.Unreachable):  # the cluster was down
        supervisor.run(layout, ("etcd", "kube-apiserver"))
    raise RuntimeError(
        f"{data} can't be backed up before an upgrade: {problem}. Nothing was changed: free up "
        "space, or correct the error, then run `make up` again"
    )


def remove(directory: Path) -> None:
    """Remove the cluster in a directory, if any, or raise an error that names what is left."""
    files.private_directory(directory)  # for the lock, if only its processes are left
    with files.locked(directory / "lock", limit=_LOCK_LIMIT):
        halt(Layout(directory))
        shutil.rmtree(directory)


def halt(layout: Layout) -> None:
    """Kill all processes and remove the network, but keep the data, which stays intact."""
    kill(layout)
    remove_groups(layout)
    network.remove(layout)
    if mounted := isolation.inside(layout):
        # Removing files in a mount would remove data that is not the cluster's.
        raise RuntimeError(
            f"unmount these first; something else is using them: {', '.join(mounted)}"
        )
    if layout.runtime.exists():
        shutil.rmtree(layout.runtime)
    with suppress(OSError):  # it contains other clusters' directories
        layout.runtime.parent.rmdir()


def kill(layout: Layout) -> None:
    """Kill all of the cluster's processes, or raise a `TimeoutError` that lists the survivors."""

    def survivors() -> str | None:
        remaining = sorted(isolation.processes(layout))
        for pid in remaining:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        named = ", ".join(map(isolation.named, remaining))
        advice = "they are waiting for a device or a file system; try again once it responds"
        return f"still running after SIGKILL: {named}; {advice}" if remaining else None

    until_well(survivors, what="the cluster's processes to exit", limit=20)


def remove_groups(layout: Layout) -> None:
    """Remove the cluster's cgroups, which must be empty."""

    def remove_all() -> None:
        for group in reversed(isolation.groups(layout)):
            group.rmdir()

    # A process leaves its cgroup a moment after it exits.
    until_well(partial(raised, remove_all, OSError), what="its cgroups to become empty", limit=1)


def _start_clients(layout: Layout, reached: Callable[[str], None]) -> None:
    connection = health.connect(layout)
    log = layout.log("kube-apiserver")
    _until_well(lambda: health.readiness_problem(connection), what="the API server", log=log)
    reached("API server is ready")
    supervisor.run(layout, [each.name for each in components.components(layout)])
    for addon in addons(layout):
        # Right after starting, the API server rejects some objects until its namespaces exist.
        until_well(
            partial(health.attempt, partial(_apply, connection, addon)),
            what=f"{addon['kind']} {addon['metadata']['name']} to be applied",
            limit=20,
        )
    schema = partial(health.schema_problem, connection)  # 180 s were too few on an emulated machine
    _until_well(schema, what="the API's schema", log=log, limit=600)
    _until_well(
        lambda: health.node_problem(connection, layout),
        what=f"node {layout.node} to become Ready",
        log=layout.log("kubelet"),
    )
    reached("node is Ready")


def addons(layout: Layout) -> list[Manifest]:
    """Return the objects that every cluster contains from the start, in creation order."""
    return manifests.rendered(
        Path(__file__).with_name("addons.yaml"),
        # Changing the name restarts coredns.
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
    """Create or update an object with server-side apply."""
    version, metadata = addon["apiVersion"], addon["metadata"]
    group = "/api/v1" if version == "v1" else f"/apis/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = f"{addon['kind'].lower()}{'es' if addon['kind'].endswith('s') else 's'}"
    path = f"{group}{scope}/{plural}/{metadata['name']}"
    query = {"fieldManager": "slipway", "force": "true"}
    kube.ask(api, kube.Request("PATCH", path, query, addon, apply=True), limit=API_LIMIT)
