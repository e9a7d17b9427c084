"""What every test shares."""

import gc
import os
import signal
from pathlib import Path
from types import FrameType

import hypothesis
import pytest

from tests import groups

pytest_plugins = ["tests.live_cluster"]

# They check a live stack, so they run only when they are asked for: `make smoke`.
collect_ignore = ["smoke"]

# Pulumi's SDKs make a million objects that stay, over which the collector would go again and again.
gc.set_threshold(100_000)

# How long an example takes says how busy the machine is, not whether the code is right. Each run
# draws others.
hypothesis.settings.register_profile(
    "slipway",
    deadline=None,
    max_examples=30,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("slipway")

_TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout that is being tested."""
    return _TESTS.parent


def pytest_configure(config: pytest.Config) -> None:
    """Let whatever ends a run end it as Ctrl-C does, so that fixtures are torn down.

    Where processes of pytest-xdist run the tests, each of them tears its own down. The one that
    started them tells them to, once, and waits; a Ctrl-C would reach them all besides.
    """
    is_worker = hasattr(config, "workerinput")

    def ignore(*_: object) -> None:
        """Ignore a signal as SIG_IGN does, which whatever the tests start would inherit."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        distributed = config.pluginmanager.get_plugin("dsession")
        if distributed is None:
            if is_worker:
                signal.signal(number, ignore)
            raise KeyboardInterrupt(signal.Signals(number).name)
        for worker in distributed._active_nodes:
            os.kill(worker.gateway._io.popen.pid, signal.SIGTERM)

    signal.signal(signal.SIGINT, ignore if is_worker else interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, ignore if is_worker else interrupt)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tell pytest-xdist which tests belong together, and put those first that take longest."""
    if not config.pluginmanager.has_plugin("xdist"):
        return
    order = [*groups.BY_FILE, None]
    found = {item: _group(item) for item in items}
    items.sort(key=lambda item: order.index(found[item]))
    for item, name in found.items():
        if name is not None:
            item.add_marker(pytest.mark.xdist_group(name))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what a group shares with its last test: an idle cluster takes a tenth of a core."""
    if nextitem is not None and _group(item) != _group(nextitem):
        # What pytest itself does after the very last test.
        item.session._setupstate.teardown_exact(None)


def _group(item: pytest.Item) -> str | None:
    return groups.group(item.path.relative_to(_TESTS), getattr(item, "fixturenames", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how often Pulumi's CLI was started, where tests/counting writes that down."""
    if "CLI_CALLS" in os.environ:
        calls = Path(os.environ["CLI_CALLS"]).read_text().splitlines()
        terminalreporter.write_line(f"Pulumi's CLI was started {len(calls)} times")
