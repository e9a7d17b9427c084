"""Looks at everything that makes the cluster work, and changes nothing."""

import time
from pathlib import Path

from clusters.embedded import api, cgroups, config_files, images, network, pki, supervisor
from clusters.embedded.components import components
from clusters.embedded.host import Host
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE, Layout
from core.problem import Problem
from core.process import CommandFailed, run
from core.toolchain import ToolMissing

_SECOND_LOOK_SECONDS = 2
_DNS_NAME = f"kubernetes.default.svc.{DNS_DOMAIN}"


def problems(layout: Layout, host: Host) -> list[Problem]:
    """Return every problem; none when the cluster works.

    Where supervisord is down or the network is gone, nothing beyond that is checked.
    """
    try:
        return _problems(layout, host)
    except ToolMissing as error:
        return [Problem("tools", str(error))]


def lasting_problems(layout: Layout, host: Host) -> list[Problem]:
    """Return the problems that a second look finds, too: a busy machine may answer slowly once."""
    if not problems(layout, host):
        return []
    time.sleep(_SECOND_LOOK_SECONDS)
    return problems(layout, host)


def displaced(layout: Layout, host: Host) -> str | None:
    """Why programs that run can't go on: the node's network namespace is not theirs; or None."""
    if not network.is_there(layout, host):
        return f"network namespace {layout.node} is gone"
    namespace = layout.network_namespace.stat().st_ino
    strangers = [
        pid for pid in cgroups.components(layout) if _network(pid) not in {namespace, None}
    ]
    if strangers:
        return f"processes {sorted(strangers)} are in another network namespace"
    return None


def lookup(layout: Layout, host: Host, name: str) -> str:
    """The addresses of a name, as `getent hosts` prints them.

    Raises:
        CommandFailed: the name does not exist, or no server answers.
        supervisor.Unreachable: the cluster is not running.
    """
    # The node's own resolv.conf is in its mount namespace. `-s dns` passes by what else the host
    # may ask first, such as a resolver of its own.
    inside = (host.path("nsenter"), "--target", str(supervisor.pid(layout)), "--net", "--mount")
    return run(*inside, "--", "getent", "-s", "dns", "hosts", name)


def dns_problem(layout: Layout, host: Host) -> str | None:
    """What keeps names from being resolved, or None."""
    try:
        lookup(layout, host, _DNS_NAME)
    except CommandFailed as error:
        return f"{DNS_SERVICE} does not resolve {_DNS_NAME}: {error}"
    except supervisor.Unreachable as error:
        return f"the cluster is not running: {error}"
    return None


def _problems(layout: Layout, host: Host) -> list[Problem]:
    found = _at_rest(layout, host)
    if reason := displaced(layout, host) or network.problem(layout, host):
        return [*found, Problem("network", reason)]
    try:
        states = supervisor.states(layout)
    except supervisor.Unreachable as error:
        return [*found, Problem("supervisord", f"does not answer: {error}")]
    found += [
        Problem(name, f"{state}; its log is {layout.log(name)}")
        for name, state in states.items()
        if state != "RUNNING"
    ]
    return found + _at_work(layout, host)


def _at_rest(layout: Layout, host: Host) -> list[Problem]:
    found = [Problem("certificates", reason) for reason in pki.problems(layout)]
    if reason := config_files.problem(layout, host, components(layout, host)):
        found.append(Problem("configuration", reason))
    return found


def _at_work(layout: Layout, host: Host) -> list[Problem]:
    connection = api.connect(layout)
    if reason := api.readiness_problem(connection):
        return [Problem("api", reason)]
    found = []
    if reason := api.node_problem(connection, layout):
        found.append(Problem("node", reason))
    try:
        absent = images.missing(layout, host)
    except CommandFailed as error:
        found.append(Problem("containerd", str(error)))
    else:
        found += [Problem("images", f"{name} is missing") for name in absent]
    if reason := dns_problem(layout, host):
        found.append(Problem("coredns", reason))
    return found


def _network(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except FileNotFoundError:
        return None  # it has ended since
