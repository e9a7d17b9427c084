"""A cluster's names and network: they fit, let jobs' pods out, and are taken away."""

import json
import os
import shlex
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded import gateway, health, isolation, network
from clusters.embedded.layout import UPLINKS, Layout
from core.process import CommandFailed
from tests.unit.shell_program import shell_program

GOES_BY_ITSELF = """\
# A pretended ip: the link is there until somebody asks for it or removes it, and then no more.
test -e "$0.gone" && { echo "Cannot find device" >&2; exit 1; }
touch "$0.gone"
test "$2" = show || { echo "Cannot find device" >&2; exit 1; }
"""


def test_a_link_that_goes_by_itself_meanwhile_is_removed(layout: Layout, tools: Path) -> None:
    shell_program(tools / "ip", GOES_BY_ITSELF)
    network.remove(layout)
    assert (tools / "ip.gone").exists(), "nobody looked for the link"


def test_a_link_that_cannot_be_removed_is_an_error(layout: Layout, tools: Path) -> None:
    refused = 'test "$2" = show || { echo "Operation not permitted" >&2; exit 1; }'
    shell_program(tools / "ip", refused)
    with pytest.raises(CommandFailed, match="Operation not permitted"):
        network.remove(layout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_names_are_asked_of_the_cluster_also_where_the_node_has_lost_its_resolv_conf(
    layout: Layout, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell_program(tools / "nsenter", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    shell_program(tools / "getent", 'echo "$@"; cat /etc/resolv.conf')
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    layout.config.mkdir(parents=True)
    (layout.config / "resolv.conf").write_text(isolation.RESOLVER)
    assert health.lookup(layout, "a.b") == f"-s dns hosts a.b\n{isolation.RESOLVER}"


NOT_10 = map(str, IPv4Network("0.0.0.0/0").address_exclude(IPv4Network("10.0.0.0/8")))


@pytest.mark.parametrize(
    ("routes", "closed"),
    [
        ({"8.8.4.0/24": "kernel", "9.9.9.0/24": None}, ["8.8.4.0/24", "9.9.9.0/24"]),
        ({"0.0.0.0/1": None, "128.0.0.0/1": None, "9.9.9.0/24": None}, ["9.9.9.0/24"]),
        # WireGuard's for all but a private network, and the network of its own address.
        ({**dict.fromkeys(NOT_10), "8.8.4.0/24": "kernel"}, ["8.8.4.0/24"]),
    ],
)
def test_this_machines_networks_are_closed_but_not_what_a_vpn_leads_to(
    routes: dict[str, str | None], closed: list[str], tools: Path
) -> None:
    listed = [{"dst": to, "dev": "wg0", "protocol": by} for to, by in routes.items()]
    shell_program(tools / "ip", f"echo {shlex.quote(json.dumps([{'dst': 'default'}, *listed]))}")
    assert network._closed() == [*network.SPECIAL, *map(IPv4Network, closed)]


DIRECTORIES = st.text("abcdefghijklmnopqrstuvwxyz/-0123456789", min_size=1, max_size=200).map(
    lambda text: Path("/state") / text.lstrip("/")
)


@given(DIRECTORIES)
def test_names_and_networks_fit_where_they_are_limited(directory: Path) -> None:
    layout = Layout(directory)
    assert layout.uplink.subnet_of(UPLINKS)
    assert list(layout.uplink.hosts()) == [layout.host_address, layout.node_address]
    assert len(layout.host_interface) <= 15
    assert max(map(len, map(str, (layout.supervisor_socket, layout.containerd_socket)))) <= 107


def test_a_jobs_pods_that_live_and_have_an_address_are_let_through() -> None:
    """An address of a pod that has ended may be another's already."""
    pods = [
        {"phase": "Running", "podIP": "10.244.0.5"},
        {"phase": "Pending", "podIP": "10.244.0.6"},
        {"phase": "Pending"},
        {"phase": "Succeeded", "podIP": "10.244.0.7"},
        {"phase": "Failed", "podIP": "10.244.0.8"},
        {},
    ]
    assert gateway.rules(pods) == (
        "flush set inet slipway jobs\nadd element inet slipway jobs { 10.244.0.5, 10.244.0.6 }\n"
    )
    assert gateway.rules([]) == "flush set inet slipway jobs\n"
