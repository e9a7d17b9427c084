"""What the tests of whole programs share."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from clusters.capacity import Capacity


@pytest.fixture(scope="module", autouse=True)
def machine() -> Iterator[pytest.MonkeyPatch]:
    """Let the embedded cluster be on a machine with 2 cores and 6 GiB, whatever this one has."""
    room = Capacity(Decimal("1.94"), 5 * 2**30, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusters.embedded.machine.capacity", lambda: room)
        # The committed stacks are declared with their placeholders, and nobody logs in.
        patch.setattr("clusters.azure.beforehand.check", lambda *_, **__: None)
        yield patch
