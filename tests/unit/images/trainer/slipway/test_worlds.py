"""Whether ranks trained apart, by the notes that their processes left."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.worlds import apart, noted


@pytest.mark.parametrize(
    ("notes", "largest", "met"),
    [
        ([[0, 1], [1, 1]], 1, False),
        ([[0, 2, -1], [1, 2, -1]], 2, True),
        ([[0, 2, -1, 0], [1, 2, -1, 0]] * 2, 2, False),
        ([[0, 4, 0], [1, 4, 0], [2, 4, 2], [3, 4, 2]], 4, False),
    ],
    ids=["alone", "met only outside of steps", "two of two", "halves of four"],
)
def test_worlds_that_nothing_joins_are_reported(
    notes: list[list[int]], largest: int, met: bool
) -> None:
    assert apart(notes) == {"ranks": len(notes), "worlds": 2, "largest": largest, "met": met}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.booleans())
def test_the_groups_of_a_mesh_join_all_of_its_ranks(sizes: list[int], flat: bool) -> None:
    """Each rank has a group along each dimension, and knows the lowest rank in it."""
    ranks, step = math.prod(sizes), 1
    notes: list[list[int]] = [[rank, ranks] for rank in range(ranks)]
    for size in sizes:
        for note in notes if size > 1 else ():
            note.append(note[0] - note[0] // step % size * step)
        step *= size
    if flat:
        notes = [[*note, 0] for note in notes] if ranks > 1 else notes
    assert apart(notes) is None


def test_a_pipelines_stages_are_one_world_though_one_of_two_sends_before_its_step() -> None:
    assert apart([[0, 3, 0], [1, 3, 0, 1], [2, 3, 1]]) is None


@pytest.mark.parametrize(
    ("left", "found"),
    [
        ([[1, 2, 0], [1, 1]], [[1, 2, 0]]),  # a helper that fits something by itself
        ([[0, 2, 0], [0, 2, 0]], [[0, 2, 0]]),  # two trainings, one after the other
        ([[2, 1], [3, 1]], [[2, 1], [3, 1]]),
    ],
)
def test_a_pods_notes_are_those_of_its_ranks(
    tmp_path: Path, left: list[list[int]], found: list[list[int]]
) -> None:
    for number, note in enumerate(left):
        (tmp_path / f"trained-{number}.json").write_text(json.dumps(note))
    assert noted(tmp_path) == found
