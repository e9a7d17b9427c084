"""The node's network: a namespace, one veth pair to the host, and a firewall between them.

The host's network gains only one interface. If jobs can reach the internet, slirp4netns (node.yaml)
opens the namespace's connections, as an ordinary program on the host.
"""

import hashlib
import json
import os
from collections import defaultdict
from functools import partial
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from string import Template
from typing import Any

from clusters.embedded import host
from clusters.embedded.layout import SERVICES, UPLINKS, Layout
from core.problem import raised
from core.process import CommandFailed, run

UPLINK = "uplink"
"""The veth interface's name on the node."""
SPECIAL = tuple(map(IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16", "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3",
)))  # fmt: skip
"""Networks outside the internet, including metadata services such as Azure's 168.63.129.16.
https://www.iana.org/assignments/iana-ipv4-special-registry"""


def firewall(layout: Layout) -> str:
    """Return the nftables rules; only packets from the host itself may enter over the uplink."""
    files = ("firewall.nft", *(("internet.nft",) if layout.internet else ()))
    rules = Template("".join(Path(__file__).with_name(name).read_text() for name in files))
    closed = ", ".join(map(str, _closed())) if layout.internet else ""
    fill = partial(rules.substitute, uplink=UPLINK, host_address=layout.host_address, closed=closed)
    return fill(version=hashlib.sha256(fill(version="").encode()).hexdigest()[:12])


def _closed() -> list[IPv4Network]:
    """Return the networks that jobs must not reach: `SPECIAL`, and this machine's public ones."""
    routes = json.loads(_ip("-4", "-json", "route", "show", "table", "all"))
    own: dict[object, set[IPv4Network]] = defaultdict(set)
    for each in routes:
        if each["dst"] not in {"default", "0.0.0.0/1", "128.0.0.0/1"}:
            own[each.get("dev"), each.get("protocol")].add(IPv4Network(each["dst"]))
    # A VPN for all traffic has routes for both halves of the internet, or for most of a half in
    # parts; these stay reachable.
    parts = (group for group in own.values() if sum(each.num_addresses for each in group) < 2**30)
    kept = {each for group in parts for each in group if not any(map(each.subnet_of, SPECIAL))}
    return [*SPECIAL, *sorted(kept)]


def ensure(layout: Layout) -> None:
    """Create the missing parts of the network, without changing the correct ones."""
    if (taken := conflict(layout, json.loads(_ip("-json", "address")))) is not None:
        raise RuntimeError(taken)
    if not is_there(layout):
        layout.network_namespace.unlink(missing_ok=True)
        _ip("netns", "add", layout.node)
    if not _is_linked(layout):
        _remove_link(layout)
        veth = ("type", "veth", "peer", "name", UPLINK, "netns", layout.node)
        _ip("link", "add", layout.host_interface, *veth)
    prefix = layout.uplink.prefixlen
    _ip("address", "replace", f"{layout.host_address}/{prefix}", "dev", layout.host_interface)
    _ip("link", "set", layout.host_interface, "up")
    inside = ("-netns", layout.node)
    _ip(*inside, "address", "replace", f"{layout.node_address}/{prefix}", "dev", UPLINK)
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "link", "set", UPLINK, "up")
    # The node's programs need a route to a Service's address, before kube-proxy's rules translate
    # it to a pod's. As there is no default route, other connections fail immediately.
    via = ("via", str(layout.host_address), "dev", UPLINK)
    _ip(*inside, "route", "replace", str(SERVICES), *via)
    if layout.internet and not layout.outside.exists():
        _ip("netns", "attach", layout.outside.name, str(os.getpid()))
    run(*enter(layout), host.path("nft"), "-f", "-", text=firewall(layout))


def enter(layout: Layout) -> tuple[str, ...]:
    """Return the prefix for a command that runs in the node's network namespace."""
    # `ip netns exec` would also mount another /sys, without the cgroups.
    return (host.path("nsenter"), f"--net={layout.network_namespace}", "--")


def is_there(layout: Layout) -> bool:
    """Return whether the node's network namespace works, which its file alone does not prove."""
    return layout.network_namespace.exists() and _answers("-netns", layout.node, "link")


def problem(layout: Layout) -> str | None:
    """Return the first problem found with the network, or None."""
    if not is_there(layout):
        return f"network namespace {layout.node} does not exist"
    if not _is_linked(layout):
        return f"interface {layout.host_interface} does not exist"
    host_side = json.loads(_ip("-json", "address", "show", "dev", layout.host_interface))
    node_side = json.loads(_ip("-n", layout.node, "-json", "address", "show", "dev", UPLINK))
    for side, address in ((host_side, layout.host_address), (node_side, layout.node_address)):
        if address not in [interface.ip for _, interface in _addresses(side)]:
            return f"address {address} is not assigned"
    try:
        rules = run(*enter(layout), host.path("nft"), "list", "table", "inet", "slipway")
    except CommandFailed:
        return "the firewall rules do not exist"
    version = firewall(layout).partition("comment ")[2].partition("\n")[0]
    return None if version in rules else "the firewall rules have changed"


def conflict(layout: Layout, interfaces: list[dict[str, Any]]) -> str | None:
    """Return a message if another interface uses the cluster's address range, or else None."""
    for name, address in _addresses(interfaces):
        if name != layout.host_interface and address.network.overlaps(layout.uplink):
            advice = "its name determines them: set slipway:cluster.name to another one"
            if address.network.supernet_of(UPLINKS):
                advice = f"so are all in {UPLINKS}: disconnect {name}, or use kind or minikube"
            where = f"the embedded cluster's addresses {layout.uplink}"
            return f"{where} are in use, as {name} has {address}; {advice}"
    return None


def remove(layout: Layout) -> None:
    """Remove the network, if it exists. The node's processes must already have exited."""
    _remove_link(layout)
    if is_there(layout):
        _ip("netns", "delete", layout.node)
    layout.network_namespace.unlink(missing_ok=True)
    if layout.outside.exists():
        _ip("netns", "delete", layout.outside.name)


def _addresses(interfaces: list[dict[str, Any]]) -> list[tuple[str, IPv4Interface]]:
    return [
        (interface["ifname"], IPv4Interface(f"{address['local']}/{address['prefixlen']}"))
        for interface in interfaces
        if interface  # `ip -json` prints an empty object for each interface that it omits
        for address in interface["addr_info"]
        if address["family"] == "inet"
    ]


def _is_linked(layout: Layout) -> bool:
    return _answers("link", "show", "dev", layout.host_interface) and _answers(
        "-netns", layout.node, "link", "show", "dev", UPLINK
    )


def _remove_link(layout: Layout) -> None:
    # A check beforehand would race: a namespace's links are deleted shortly after it.
    try:
        _ip("link", "delete", layout.host_interface)
    except CommandFailed:
        if _answers("link", "show", "dev", layout.host_interface):
            raise


def _ip(*arguments: str) -> str:
    return run(host.path("ip"), *arguments)


def _answers(*arguments: str) -> bool:
    return raised(partial(_ip, *arguments), CommandFailed) is None
