"""What every test shares."""

import signal
from pathlib import Path
from types import FrameType

import hypothesis
import pytest

pytest_plugins = ["tests.live_cluster"]

# They check a live stack, so they run only when they are asked for: `make smoke`.
collect_ignore = ["smoke"]

# How long an example takes says how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("slipway", deadline=None)
hypothesis.settings.load_profile("slipway")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout that is being tested."""
    return Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Let SIGTERM and SIGHUP end a run as Ctrl-C does, so that fixtures are torn down."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
