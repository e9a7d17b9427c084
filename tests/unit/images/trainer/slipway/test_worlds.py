"""Whether ranks trained apart, by the notes that their processes left."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.worlds import apart, noted


@pytest.mark.parametrize(
    ("notes", "worlds"),
    [
        ([[0, 1]], 1),
        ([[0, 2, 0], [1, 2, 0]], 1),
        # Stages of a pipeline: one of two sends before its step.
        ([[0, 3, 0], [1, 3, 0, 1], [2, 3, 1]], 1),
        ([[0, 1], [1, 1]], 2),
        ([[0, 2, -1], [1, 2, -1]], 2),
        ([[0, 2, 0], [1, 2, 0], [0, 2, 0], [1, 2, 0]], 2),
        ([[0, 4, 0], [1, 4, 0], [2, 4, 2], [3, 4, 2]], 2),
    ],
)
def test_the_worlds_are_those_that_nothing_joins(notes: list[list[int]], worlds: int) -> None:
    found = apart(notes)
    assert (1 if found is None else found["worlds"]) == worlds


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.booleans())
def test_the_groups_of_a_mesh_join_all_of_its_ranks(sizes: list[int], flat: bool) -> None:
    """Each rank has a group along each dimension, and knows the lowest rank in it."""
    ranks, step = 1, 1
    for size in sizes:
        ranks *= size
    notes: list[list[int]] = [[rank, ranks] for rank in range(ranks)]
    for size in sizes:
        for note in notes if size > 1 else ():
            note.append(note[0] - note[0] // step % size * step)
        step *= size
    if flat:
        notes = [[*note, 0] for note in notes] if ranks > 1 else notes
    assert apart(notes) is None


def test_ranks_that_met_only_outside_of_steps_are_reported() -> None:
    assert apart([[0, 2, -1], [1, 2, -1]]) == {"ranks": 2, "worlds": 2, "largest": 2, "met": True}
    assert apart([[0, 1], [1, 1]]) == {"ranks": 2, "worlds": 2, "largest": 1, "met": False}
    pods = [[0, 2, -1, 0], [1, 2, -1, 0]] * 2
    assert apart(pods) == {"ranks": 4, "worlds": 2, "largest": 2, "met": False}


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
