"""The node's network: a namespace of its own, one veth pair to the host, and a firewall between.

Routes, interfaces and rules of the node are all inside its namespace, so the host's own network
is left alone but for one interface, and removing the namespace removes everything.
"""

import json
from ipaddress import IPv4Interface
from typing import Any

from clusters.embedded.host import Host
from clusters.embedded.layout import SERVICES, Layout
from core.process import CommandFailed, run

UPLINK = "uplink"
"""The veth's name on the node's side."""


def firewall(layout: Layout) -> str:
    """The nftables rules: of what arrives over the uplink, only the host's own packets are let in.

    Whatever the host forwards for others (it may be a router, or run containers) has another
    source address, and the host drops packets from outside that claim to come from itself.
    """
    return f"""\
table inet slipway
delete table inet slipway
table inet slipway {{
    chain uplink {{
        type filter hook prerouting priority raw; policy accept;
        iifname "{UPLINK}" ip saddr {layout.host_address} accept
        iifname "{UPLINK}" counter drop
    }}
}}
"""


def ensure(layout: Layout, host: Host) -> None:
    """Make what is missing of the network; changes nothing that is right.

    Raises:
        CommandFailed: `ip` or `nft` refuses.
        RuntimeError: another interface of the host has the addresses.
    """
    ip = host.path("ip")
    taken = conflict(layout, json.loads(run(ip, "-json", "address")))
    if taken is not None:
        raise RuntimeError(taken)
    if not _namespace_usable(layout, ip):
        layout.network_namespace.unlink(missing_ok=True)
        run(ip, "netns", "add", layout.node)
    if not _linked(layout, ip):
        _remove_link(layout, ip)
        veth = ("type", "veth", "peer", "name", UPLINK, "netns", layout.node)
        run(ip, "link", "add", layout.host_interface, *veth)
    prefix = layout.uplink.prefixlen
    run(ip, "address", "replace", f"{layout.host_address}/{prefix}", "dev", layout.host_interface)
    run(ip, "link", "set", layout.host_interface, "up")
    inside = (ip, "-netns", layout.node)
    run(*inside, "address", "replace", f"{layout.node_address}/{prefix}", "dev", UPLINK)
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "link", "set", UPLINK, "up")
    # A program of the node needs some route to a service's address, before kube-proxy's rules turn
    # it into a pod's. Without a default route, a call to the outside fails at once.
    via = ("via", str(layout.host_address), "dev", UPLINK)
    run(*inside, "route", "replace", str(SERVICES), *via)
    run(*enter(layout, host), host.path("nft"), "-f", "-", text=firewall(layout))


def enter(layout: Layout, host: Host) -> tuple[str, ...]:
    """What to put in front of a command to run it in the node's network.

    `ip netns exec` would mount another /sys besides, without the cgroups.
    """
    return (host.path("nsenter"), f"--net={layout.network_namespace}", "--")


def is_there(layout: Layout, host: Host) -> bool:
    """Whether the node's network namespace can be entered."""
    return _namespace_usable(layout, host.path("ip"))


def problem(layout: Layout, host: Host) -> str | None:
    """Return what is wrong with the network of an existing namespace, or None."""
    ip = host.path("ip")
    if not _linked(layout, ip):
        return f"interface {layout.host_interface} is gone"
    host_side = json.loads(run(ip, "-json", "address", "show", "dev", layout.host_interface))
    node_side = json.loads(run(ip, "-n", layout.node, "-json", "address", "show", "dev", UPLINK))
    for side, address in ((host_side, layout.host_address), (node_side, layout.node_address)):
        if address not in [interface.ip for _, interface in _addresses(side)]:
            return f"address {address} is gone"
    try:
        run(*enter(layout, host), host.path("nft"), "list", "table", "inet", "slipway")
    except CommandFailed:
        return "the firewall's rules are gone"
    return None


def conflict(layout: Layout, interfaces: list[dict[str, Any]]) -> str | None:
    """Which other interface of the host has an address in this cluster's range, in words, or None.

    Args:
        layout: The cluster.
        interfaces: What `ip -json address` prints.
    """
    for name, address in _addresses(interfaces):
        if name != layout.host_interface and address.network.overlaps(layout.uplink):
            return (
                f"the embedded cluster's addresses {layout.uplink} are in use: "
                f"{name} has {address}. "
                "They follow from the cluster's directory; choose another name for the cluster."
            )
    return None


def remove(layout: Layout, host: Host) -> None:
    """Remove the network; succeeds when it does not exist. The node's processes must be gone."""
    ip = host.path("ip")
    _remove_link(layout, ip)
    if _namespace_usable(layout, ip):
        run(ip, "netns", "delete", layout.node)
    layout.network_namespace.unlink(missing_ok=True)


def _addresses(interfaces: list[dict[str, Any]]) -> list[tuple[str, IPv4Interface]]:
    return [
        (interface["ifname"], IPv4Interface(f"{address['local']}/{address['prefixlen']}"))
        for interface in interfaces
        if interface  # `ip -json` prints an empty object for each interface that it left out
        for address in interface["addr_info"]
        if address["family"] == "inet"
    ]


def _namespace_usable(layout: Layout, ip: str) -> bool:
    """A name alone proves nothing: its file may exist with nothing mounted on it."""
    return layout.network_namespace.exists() and _succeeds(ip, "-netns", layout.node, "link")


def _linked(layout: Layout, ip: str) -> bool:
    return _succeeds(ip, "link", "show", "dev", layout.host_interface) and _succeeds(
        ip, "-netns", layout.node, "link", "show", "dev", UPLINK
    )


def _remove_link(layout: Layout, ip: str) -> None:
    # A check before would race: a namespace's links go shortly after the namespace.
    try:
        run(ip, "link", "delete", layout.host_interface)
    except CommandFailed:
        if _succeeds(ip, "link", "show", "dev", layout.host_interface):
            raise


def _succeeds(*command: str) -> bool:
    try:
        run(*command)
    except CommandFailed:
        return False
    return True
