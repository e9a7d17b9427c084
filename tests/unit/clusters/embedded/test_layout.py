"""Names, addresses and paths of an embedded cluster."""

from ipaddress import IPv4Network
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.layout import UPLINKS, Layout

DIRECTORIES = st.text("abcdefghijklmnopqrstuvwxyz/-0123456789", min_size=1, max_size=200).map(
    lambda text: Path("/state") / text.lstrip("/")
)


def test_the_same_directory_is_the_same_cluster() -> None:
    assert vars(Layout(Path("/state/dev"))) == vars(Layout(Path("/state/dev")))
    assert Layout(Path("/state/dev")).node == "slipway-" + Layout(Path("/state/dev")).id


def test_two_directories_are_two_clusters() -> None:
    one, other = Layout(Path("/state/dev")), Layout(Path("/state/test"))
    assert one.id != other.id
    assert not one.uplink.overlaps(other.uplink)


@given(DIRECTORIES)
def test_every_cluster_has_a_network_of_two_addresses_in_the_range(directory: Path) -> None:
    layout = Layout(directory)
    assert layout.uplink.subnet_of(UPLINKS)
    assert list(layout.uplink.hosts()) == [layout.host_address, layout.node_address]


@given(DIRECTORIES)
def test_names_fit_where_the_kernel_limits_them(directory: Path) -> None:
    layout = Layout(directory)
    assert len(layout.host_interface) <= 15
    assert all(
        len(str(path)) <= 107 for path in (layout.supervisor_socket, layout.containerd_socket)
    )


def test_the_range_is_private() -> None:
    assert UPLINKS.subnet_of(IPv4Network("10.0.0.0/8"))
