"""The rank that the others wait for is named with where its time goes, and no other."""

import json

import pytest

from jobs.observe.paces import Paces


def pace(rank: int, data: float, compute: float, backward: float) -> str:
    parts = {"data": data, "compute": compute, "backward": backward}
    return json.dumps({"event": "pace", "rank": rank, "steps": 50, "seconds_in": parts})


def paces_of(*lines: str, ranks: int = 3) -> Paces:
    paces = Paces(ranks)
    for line in lines:
        paces.see(line)
    return paces


FAST, SLOW = [pace(rank, 0.01, 0.09, 0.3) for rank in (0, 2)], pace(1, 0.2, 0.1, 0.1)


@pytest.mark.parametrize("lines", [[*FAST, SLOW], [SLOW, *FAST]], ids=["last", "first"])
def test_the_rank_that_the_others_wait_for_is_named_with_where_its_time_goes(
    lines: list[str],
) -> None:
    """Each rank is judged once all of them have reported."""
    paces = paces_of(*lines)
    assert str(paces) == "; slower than the others: rank 1"
    assert paces.slow == {
        1: "3.0 times slower than the others, which wait 0.2 s in each step: "
        "data 0.2 s, compute 0.1 s, backward 0.1 s"
    }


def test_of_gpus_the_time_for_batches_counts() -> None:
    events = [
        {"event": "pace", "rank": rank, "seconds_in": {"data": data, "rest": 0.3 - data}}
        for rank, data in ((0, 0.01), (1, 0.2), (2, 0.01))
    ]
    assert paces_of(*map(json.dumps, events)).now == {1}


def test_two_ranks_are_compared_with_each_other() -> None:
    paces = paces_of(pace(0, 0.0, 0.1, 0.1), pace(1, 0.0, 0.16, 0.04), ranks=2)
    assert paces.now == {1}


@pytest.mark.parametrize(
    "lines",
    [
        [pace(0, 0.01, 0.1, 0.3), pace(1, 0.01, 0.14, 0.26), pace(2, 0.01, 0.1, 0.3)],
        # Three times as slow in what takes hardly any time.
        [pace(0, 0.001, 0.001, 0.3), pace(1, 0.005, 0.001, 0.3), pace(2, 0.001, 0.001, 0.3)],
        # One that has not reported yet may be as slow.
        [FAST[0], SLOW],
        # Lines that a program prints itself.
        ['{"event": "pace"}', '{"event": "pace", "rank": 1, "seconds_in": [1]}', "pace"],
    ],
)
def test_what_is_no_straggler_is_not_named(lines: list[str]) -> None:
    paces = paces_of(*lines)
    assert (str(paces), paces.slow) == ("", {})


def test_a_rank_that_keeps_up_again_leaves_the_row_and_stays_in_the_result() -> None:
    paces = paces_of(*FAST, SLOW)
    before = dict(paces.slow)
    paces.see(pace(1, 0.0, 0.1, 0.3))
    assert (str(paces), paces.slow) == ("", before)
    paces.see(pace(1, 0.4, 0.1, 0.1))
    assert (paces.now, paces.slow) == ({1}, before), "one warning is enough"
