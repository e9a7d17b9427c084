"""Looks at everything that makes the cluster work, and changes nothing."""

import time
from collections.abc import Callable, Iterator

from kubernetes import client

from clusters.embedded import components, host, images, network, pki, supervisor
from clusters.embedded.layout import API_LIMIT, DNS_DOMAIN, DNS_SERVICE, Layout
from core import kube
from core.manifests import unready
from core.problem import Problem
from core.process import CommandFailed, run
from core.toolchain import ToolMissing

_SECOND_LOOK_SECONDS = 2
_DNS_NAME = f"kubernetes.default.svc.{DNS_DOMAIN}"


def problems(layout: Layout) -> list[Problem]:
    """Return every problem up to missing certificates, network or supervisord; none without."""
    try:
        return list(_problems(layout))
    except ToolMissing as error:
        return [Problem("tools", str(error))]


def lasting_problems(layout: Layout) -> list[Problem]:
    """Return the problems that a second look finds, too: a busy machine may answer slowly once."""
    if not problems(layout):
        return []
    time.sleep(_SECOND_LOOK_SECONDS)
    return problems(layout)


def connect(layout: Layout) -> client.ApiClient:
    """A client with the certificate that needs no binding."""
    return kube.connect(pki.kubeconfig(layout, "bootstrap"))


def attempt(call: Callable[[], str | None]) -> str | None:
    """Run a check against the API; where it can't be reached, that is the answer."""
    try:
        return call()
    except kube.UNREACHABLE as error:
        return kube.reason(error)


def readiness_problem(api: client.ApiClient) -> str | None:
    """What keeps the API server from being ready (its /readyz), or None."""

    def ask() -> None:
        kube.send(api, kube.Request("GET", "/readyz"), limit=API_LIMIT)

    return attempt(ask)


def node_problem(api: client.ApiClient, layout: Layout) -> str | None:
    """What keeps the node from being Ready, or None."""
    request = kube.Request("GET", f"/api/v1/nodes/{layout.node}")
    return attempt(lambda: unready(kube.ask(api, request, limit=API_LIMIT)))


def lookup(layout: Layout, name: str) -> str:
    """The addresses of a name, as `getent hosts` prints them; `CommandFailed` without any."""
    # The node's own resolv.conf is in its mount namespace. `-s dns` passes by what else the host
    # may ask first, such as a resolver of its own.
    inside = (host.path("nsenter"), "--target", str(supervisor.pid(layout)), "--net", "--mount")
    return run(*inside, "--", "getent", "-s", "dns", "hosts", name)


def dns_problem(layout: Layout) -> str | None:
    """What keeps names from being resolved, or None."""
    try:
        lookup(layout, _DNS_NAME)
    except CommandFailed as error:
        return f"{DNS_SERVICE} does not resolve {_DNS_NAME}: {error}"
    except supervisor.Unreachable as error:
        return f"the cluster is not running: {error}"
    return None


def _problems(layout: Layout) -> Iterator[Problem]:
    if reasons := pki.problems(layout):
        yield from [Problem("certificates", reason) for reason in reasons]
        return
    if reason := components.problem(layout):
        yield Problem("configuration", reason)
    if reason := network.problem(layout):
        yield Problem("network", reason)
        return
    try:
        states = supervisor.states(layout)
    except supervisor.Unreachable as error:
        yield Problem("supervisord", f"does not answer: {error}")
        return
    for name, state in states.items():
        if state != "RUNNING":
            yield Problem(name, f"{state}; its log is {layout.log(name)}")
    yield from _problems_at_work(layout)


def _problems_at_work(layout: Layout) -> Iterator[Problem]:
    connection = connect(layout)
    if reason := readiness_problem(connection):
        yield Problem("api", reason)
        return
    if reason := node_problem(connection, layout):
        yield Problem("node", reason)
    try:
        for name in images.missing(layout):
            yield Problem("images", f"{name} is missing")
    except CommandFailed as error:
        yield Problem("containerd", str(error))
    if reason := dns_problem(layout):
        yield Problem("coredns", reason)
