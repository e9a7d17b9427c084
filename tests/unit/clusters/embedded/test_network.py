"""Taking a cluster's network away, while the kernel takes parts of it away itself."""

from pathlib import Path

import pytest

from clusters.embedded import network
from clusters.embedded.host import Host
from clusters.embedded.layout import Layout
from core.process import CommandFailed
from tests.unit.clusters.embedded.fake_host import host

GOES_BY_ITSELF = """\
#!/bin/sh
# A pretended ip: the link is there until somebody asks for it or removes it, and then no more.
test -e "$0.gone" && { echo "Cannot find device" >&2; exit 1; }
touch "$0.gone"
test "$2" = show || { echo "Cannot find device" >&2; exit 1; }
"""

STAYS = """\
#!/bin/sh
# A pretended ip: the link is there, and may not be removed.
test "$2" = show || { echo "Operation not permitted" >&2; exit 1; }
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A cluster that never was."""
    return Layout(tmp_path / "clusters" / "dev")


def with_ip(directory: Path, script: str) -> Host:
    """A machine whose `ip` is the script."""
    machine = host(directory)
    ip = Path(machine.path("ip"))
    ip.write_text(script)
    ip.chmod(0o755)
    return machine


def test_a_link_that_goes_by_itself_meanwhile_is_removed(layout: Layout, tmp_path: Path) -> None:
    network.remove(layout, with_ip(tmp_path / "tools", GOES_BY_ITSELF))
    assert (tmp_path / "tools" / "ip.gone").exists(), "nobody looked for the link"


def test_a_link_that_stays_is_told(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="Operation not permitted"):
        network.remove(layout, with_ip(tmp_path / "tools", STAYS))
