"""Names, addresses and paths of an embedded cluster."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.layout import UPLINKS, Layout

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
