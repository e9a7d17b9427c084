"""Taking a cluster's network away, while the kernel takes parts of it away itself."""

from pathlib import Path

import pytest

from clusters.embedded import network
from clusters.embedded.layout import Layout
from core.process import CommandFailed
from tests.unit.shell_program import shell_program

GOES_BY_ITSELF = """\
# A pretended ip: the link is there until somebody asks for it or removes it, and then no more.
test -e "$0.gone" && { echo "Cannot find device" >&2; exit 1; }
touch "$0.gone"
test "$2" = show || { echo "Cannot find device" >&2; exit 1; }
"""

STAYS = """\
# A pretended ip: the link is there, and may not be removed.
test "$2" = show || { echo "Operation not permitted" >&2; exit 1; }
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A cluster that never was."""
    return Layout(tmp_path / "clusters" / "dev")


def test_a_link_that_goes_by_itself_meanwhile_is_removed(layout: Layout, tools: Path) -> None:
    shell_program(tools / "ip", GOES_BY_ITSELF)
    network.remove(layout)
    assert (tools / "ip.gone").exists(), "nobody looked for the link"


def test_a_link_that_cannot_be_removed_is_an_error(layout: Layout, tools: Path) -> None:
    shell_program(tools / "ip", STAYS)
    with pytest.raises(CommandFailed, match="Operation not permitted"):
        network.remove(layout)
