"""Numbers that a program only prints are reported as if it had called `slipway.log`."""

import io
import json
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway import reporting
from slipway.events import reported
from slipway_trainer.agent.printed import MARK, Lines, Search
from tests.unit.anything import LINES, TEXTS
from tests.unit.images.trainer.container import Container, ended, line

_METRICS = {
    "epoch": r"[Ee]poch (\d+)",
    "accuracy": "accuracy=([0-9.]+)",
    "val_loss": r"val_loss:? (?P<value>\S+)",
    "loss": r"\bloss=([0-9.]+)",
}


@pytest.fixture(autouse=True)
def _nothing_logged() -> Iterator[None]:
    yield
    reporting._latest.clear()
    reporting._epochs.clear()


def found(*lines: str, **patterns: str) -> dict[str, Any]:
    """Return what is reported of lines."""
    reporting._latest.clear()
    Search(patterns).see(lines)
    return dict(reporting.logged()["metrics"])


@given(
    before=TEXTS,
    after=TEXTS,
    number=st.floats(min_value=0, max_value=1e9).map(lambda each: f"{each:.4f}"),
    earlier=st.lists(st.integers(0, 9)),
    end=st.sampled_from(["", ".", "%", ", ", "\r", "\x1b[0m", "]\r\x1b[A"]),
)
def test_of_any_line_the_last_number_counts(
    before: str, after: str, number: str, earlier: list[int], end: str
) -> None:
    states = "".join(f"{before}v={each}{end or ' '}" for each in earlier)
    line = f"{states}\x1b[1m{before}v={number}{end} {after}"
    assert found(line, v="v=([0-9.]+)") == {"v": float(number)}


@given(st.lists(LINES, max_size=5))
def test_any_line_may_be_searched_and_an_event_is_found_once(lines: list[str]) -> None:
    with redirect_stdout(io.StringIO()) as printed:
        found(*lines, "v=1", v="v=([0-9.]+)", w=r"(\S+)", x='"accuracy": ([0-9.]+)')
        own = printed.getvalue().splitlines()
        printed.truncate(0)
        found(*own, x='"v": ([0-9.]+)')
    assert printed.getvalue() == ""


def test_a_number_is_one_whatever_follows_it(capsys: pytest.CaptureFixture[str]) -> None:
    for printed, number in (("acc 97.5% now", 97.5), ("acc 1e-3", 1e-3), ("acc 0.97.", 0.97)):
        assert found("acc best", printed, "acc none", acc=r"acc (\S+)") == {"acc": number}
    assert "acc='best' is ignored: it is not a number" in capsys.readouterr().err


def test_a_pattern_that_never_ends_leaves_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    line = "a" * 5000 + "b v=2"
    values = found("v=1", line[-40:], line, "v=3", slow="(((a+)+)+)$", v="v=([0-9.]+)")
    assert values == {"v": 3.0}
    assert time.monotonic() - began < 5
    events = map(reported, capsys.readouterr().out.splitlines())
    [warning] = [each["warning"] for each in events if each["event"] == "warning"]
    assert warning.startswith("`metrics.slow` is dropped: searching a line did not finish within 1")


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_lines_pass_whole_and_nothing_of_them_is_lost(pieces: list[bytes]) -> None:
    sink, seen = io.BytesIO(), list[str]()
    lines = Lines(sink, seen.append)
    for piece in filter(None, pieces):
        lines.write(piece)
        assert sink.getvalue()[-1:] in {b"", b"\n"}
    lines.write(b"")
    whole = b"".join(pieces)
    assert sink.getvalue() == whole + (b"" if whole.endswith(b"\n") or not whole else b"\n")
    assert [each.encode() for each in seen] == [
        each.decode(errors="replace").encode() for each in sink.getvalue().split(b"\n")[:-1]
    ]


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    seen = list[str]()
    lines = Lines(io.BytesIO(), seen.append)
    for _ in range(100):
        lines.write(b"x" * 64 * 1024)
    assert max(len(lines._open), *map(len, seen)) < 2**19


_TRAINS = """
import logging, slipway, sys, time
logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.INFO)
for epoch in range(2):
    for step in range(25):
        sys.stderr.write(f"\\r{step}/25 [00:00<00:01, 9.1it/s, loss={1 / (1 + step):.4f}]")
        sys.stderr.flush()
        time.sleep(0.05)
    print(f"\\nepoch {epoch}: accuracy={0.5 + epoch / 4}")
    logging.getLogger("train").info("val_loss %.2f", 0.5 - epoch / 4)
slipway.finish(accuracy=0.9)
"""


@pytest.fixture
def searched(tmp_path: Path) -> Container:
    """The launcher, which searches what a program prints."""
    metrics = {"PYTHONUNBUFFERED": "1", "SLIPWAY_METRICS": json.dumps(_METRICS)}
    return Container(tmp_path, **metrics, SLIPWAY_EVENTS=str(tmp_path / "events"))


def test_what_a_script_prints_is_in_its_message_and_events(searched: Container) -> None:
    """Printed numbers, by print, logging or a progress bar, are reported as by `slipway.log`."""
    spool = searched.directory / "events"
    spool.touch()
    printed = ended(searched.launch(_TRAINS)).out.splitlines()
    metrics, curves = (searched.message[name] for name in ("metrics", "epoch_metrics"))
    own = {"accuracy": 0.9}  # what a program reports itself takes precedence
    assert metrics == {"loss": 0.04, "val_loss": 0.25, **own}
    assert (curves["accuracy"], curves["val_loss"]) == ([0.5, 0.75], [0.5, 0.25])
    events = [each for each in printed if reported(each)]
    assert spool.read_text().splitlines() == events
    bars = [each for each in events if '"loss"' in each]
    assert len(bars) >= 2, "one state a second, and the last one"


def test_a_process_that_is_left_behind_does_not_hold_the_launcher_up(searched: Container) -> None:
    leaves = "import subprocess; subprocess.Popen(['sleep', '20'], start_new_session=True)"
    began = time.monotonic()
    ended(searched.launch(f"print('accuracy=0.5'); {leaves}"))
    assert searched.message["metrics"] == {"accuracy": 0.5}
    assert time.monotonic() - began < 15


def test_of_several_ranks_those_of_rank_0_count_also_where_lines_run_into_each_other() -> None:
    """As torchrun prints them; a program's own brackets are no rank, and `^` is where it begins."""
    lines = ["[1] >v=9", "[0] >v=1", "[0] >5/9 w=2[1] >v=7", "[1] >w=6[0] >v=3", "[10] >w=5"]
    lines += ["[0] >Epoch: [3]  [ 10/100]  x=4", "[1] >x=5", "[0] >y=6"]
    patterns = {"v": r"v=(\d+)", "w": r"w=(\d+)", "x": r"\[3\].* x=(\d+)", "y": r"^y=(\d+)"}
    values = found(*(each.replace(">", MARK) for each in lines), **patterns)
    assert values == {"v": 3.0, "w": 2.0, "x": 4.0, "y": 6.0}


def test_signals_reach_the_program_while_it_is_searched(searched: Container) -> None:
    # It may come while `print` still has its lock.
    process = searched.launch(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'loss=2\\n'), sys.exit(0)))\n"
        "print('loss=1', flush=True)\nsignal.pause()\n"
    )
    assert line(process) == "loss=1\n"
    process.terminate()
    *_, last = filter(None, map(reported, ended(process, 143).out.splitlines()))
    assert last["metrics"] == {"loss": 2.0}
