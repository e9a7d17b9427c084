"""Check all parts of the embedded cluster, without changing anything."""

from collections.abc import Callable, Iterator
from functools import partial

from kubernetes import client

from clusters.embedded import components, images, network, pki, supervisor
from clusters.embedded.layout import API_LIMIT, DNS_DOMAIN, DNS_SERVICE, Layout
from core import kube
from core.manifests import unready
from core.problem import Problem, raised
from core.process import CommandFailed, run
from core.rollout import is_of_current_template
from core.toolchain import ToolMissing

_SCHEMA = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_OUTDATED = "its Deployment has not created a pod from its current template yet"
_DNS_NAME = f"kubernetes.default.svc.{DNS_DOMAIN}"


def problems(layout: Layout) -> list[Problem]:
    """Return the cluster's problems. Checks stop at a problem that would cause all later ones."""
    try:
        return list(_problems(layout))
    except ToolMissing as error:
        return [Problem("tools", str(error))]


def connect(layout: Layout) -> client.ApiClient:
    """Return a client that uses the bootstrap certificate, which does not need a role binding."""
    return kube.connect(pki.kubeconfig(layout, "bootstrap"))


def attempt(call: Callable[[], str | None]) -> str | None:
    """Run an API check and return its problem, or the reason if the API can't be reached."""
    try:
        return call()
    except kube.UNREACHABLE as error:
        return kube.reason(error)


def readiness_problem(api: client.ApiClient) -> str | None:
    """Return why the API server is not ready, according to /readyz, or None if it is."""
    return _unanswered(api, kube.Request("GET", "/readyz"))


def schema_problem(api: client.ApiClient) -> str | None:
    """Return why the API server does not send its schema, or None if it does.

    Building it takes 20 s on a slow machine, and pulumi-kubernetes waits 32 s for all its requests.
    """
    return _unanswered(api, kube.Request("GET", "/openapi/v2", accept=_SCHEMA), seconds=60)


def _unanswered(api: client.ApiClient, request: kube.Request, seconds: int = 10) -> str | None:
    def check() -> None:
        kube.send(api, request, limit=(API_LIMIT[0], seconds)).read()

    return attempt(check)


def node_problem(api: client.ApiClient, layout: Layout) -> str | None:
    """Return why the node is not Ready, or None if it is."""
    request = kube.Request("GET", f"/api/v1/nodes/{layout.node}")
    return attempt(lambda: unready(kube.ask(api, request, limit=API_LIMIT)))


def lookup(layout: Layout, name: str) -> str:
    """Return a name's addresses as `getent hosts` prints them, or raise `CommandFailed`."""
    # The node loses its own resolv.conf as soon as the host replaces that file, so each lookup
    # mounts it again. `-s dns` skips the host's other sources, such as a local resolver.
    script = 'mount --bind "$0" /etc/resolv.conf && exec getent -s dns hosts "$1"'
    private = ("unshare", "--mount", "--", "sh", "-c", script, str(layout.config / "resolv.conf"))
    return run(*network.enter(layout), *private, name)


def dns_problem(api: client.ApiClient, layout: Layout) -> str | None:
    """Return why the cluster's DNS can't resolve names, or is being updated; None if neither."""
    # A pod of the previous template responds until its Deployment's controller stops it.
    request = kube.Request("GET", "/apis/apps/v1/namespaces/kube-system/deployments/coredns")
    coredns = partial(kube.ask, api, request, limit=API_LIMIT)
    if reason := attempt(lambda: None if is_of_current_template(coredns()) else _OUTDATED):
        return reason
    reason = raised(lambda: lookup(layout, _DNS_NAME), CommandFailed)
    return None if reason is None else f"{DNS_SERVICE} does not resolve {_DNS_NAME}: {reason}"


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
        yield Problem("supervisord", f"is not responding: {error}")
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
    if reason := dns_problem(connection, layout):
        yield Problem("coredns", reason)
