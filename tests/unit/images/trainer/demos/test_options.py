"""What the demos' command line takes from the environment."""

import os

import pytest

from slipway_trainer.demos import options


@pytest.mark.parametrize(
    ("text", "threads"),
    [("3", 3), (" 3 ", 3), ("3,2", 3), ("0", None), ("-1", None), ("many", None), ("1.5", None)],
)
def test_threads_are_those_of_openmp_where_it_names_a_number(
    monkeypatch: pytest.MonkeyPatch, text: str, threads: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "no number")
    parsed = options.parser("program", None).parse_args([])
    assert parsed.threads == (threads or len(os.sched_getaffinity(0)))
