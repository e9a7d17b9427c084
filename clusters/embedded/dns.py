"""Asks coredns a question the way a program on the node does."""

from clusters.embedded import rpc, supervisor
from clusters.embedded.command import CommandFailed, run
from clusters.embedded.component import Host
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE, Layout

NAME = f"kubernetes.default.svc.{DNS_DOMAIN}"


def lookup(layout: Layout, host: Host, name: str) -> str:
    """The addresses of a name, as `getent hosts` prints them.

    Raises:
        CommandFailed: there is no such name, or nobody answers.
        rpc.Unreachable: the cluster is not running.
    """
    # The node's own resolv.conf is in its mount namespace. `-s dns` passes by what else the host
    # may ask first, such as a resolver of its own.
    inside = (host.path("nsenter"), "--target", str(supervisor.pid(layout)), "--net", "--mount")
    return run(*inside, "--", "getent", "-s", "dns", "hosts", name)


def problem(layout: Layout, host: Host) -> str | None:
    """What keeps names from being resolved, or None."""
    try:
        lookup(layout, host, NAME)
    except CommandFailed as error:
        return f"{DNS_SERVICE} does not resolve {NAME}: {error}"
    except rpc.Unreachable as error:
        return f"the cluster is not running: {error}"
    return None
