"""`--precision auto` measures which is faster, for all ranks, and leaves the training as it is."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.trainer.conftest import Opened, Rank

_SMALL = ("--limit-train", "1000", "--limit-test", "200", "--log-interval", "1", "--threads", "1")

# Jobs of ranks that took so long with fp32 and with bf16; a rank without times has no bf16.
_CHOOSE = """
import json, sys, torch
from slipway_trainer.demos import precision
def chosen(seconds, ranks):
    torch.cpu._is_avx512_bf16_supported = lambda: seconds is not None
    precision._measured = lambda *_: dict(zip(("fp32", "bf16"), seconds))
    rows = [[1, 0, 0] if each is None else [0, *each] for each in ranks]
    def total(*mine):
        assert list(mine) in rows
        return [float(sum(column)) for column in zip(*rows)]
    return precision.choose(None, torch.zeros(1), None, total)
for ranks in json.loads(sys.argv[1]):
    print(json.dumps([chosen(seconds, ranks) for seconds in ranks]))
"""
_JOBS: Mapping[str, tuple[list[list[float] | None], str, float | None]] = {
    "faster": ([[1.4, 1.0], [1.4, 1.0]], "bf16", 1.4),
    "hardly faster": ([[1.05, 1.0]], "fp32", 1.05),
    "slower in all": ([[1.4, 1.0], [0.6, 3.0]], "fp32", 0.5),
    "one has no bf16": ([[1.4, 1.0], None], "fp32", None),
}
"""The seconds of each rank, and what all of them choose, by which ratio."""


def test_all_ranks_choose_the_same_by_the_sum_of_their_times(image: Opened) -> None:
    jobs = json.dumps([ranks for ranks, _, _ in _JOBS.values()])
    lines = image.run("python3", "-c", _CHOOSE, jobs).splitlines()
    assert dict(zip(_JOBS, map(json.loads, lines), strict=True)) == {
        name: [[dtype, ratio]] * len(ranks) for name, (ranks, dtype, ratio) in _JOBS.items()
    }


@pytest.mark.long
def test_a_run_says_what_was_chosen_and_comes_to_what_it_would_if_that_was_named(
    image: Opened, tmp_path: Path
) -> None:
    chosen = image.train(tmp_path / "auto", Rank(), Rank(), args=_SMALL)
    [started] = {json.dumps(_told(rank.of("started")[0])) for rank in chosen}
    assert {json.dumps(_told(rank.message)) for rank in chosen} == {started}
    name = {"fp32": "float32", "bf16": "bfloat16"}[json.loads(started)["precision"]]
    named = image.train(tmp_path / "named", Rank(), Rank(), args=(*_SMALL, "--precision", name))
    assert "precision_ratio" not in named[0].message
    losses = [[step["loss"] for step in rank.of("step")] for rank in (*chosen, *named)]
    assert losses[:2] == losses[2:]


@pytest.mark.long
def test_a_resumed_run_calculates_with_what_it_began_with(image: Opened, tmp_path: Path) -> None:
    kept = {"SLIPWAY_CHECKPOINT_DIR": "/out/checkpoints", "SLIPWAY_CHECKPOINT_EVERY": "5 steps"}
    for name, epochs in (("float32", "1"), ("auto", "2")):
        args = (*_SMALL, "--precision", name, "--epochs", epochs)
        [rank] = image.train(tmp_path, Rank(), args=args, env=kept)
        assert rank.code == 0, rank.errors
        assert _told(rank.message) == {"precision": "fp32"}
    assert rank.of("resumed")


def _told(told: dict[str, object]) -> dict[str, object]:
    return {name: told[name] for name in ("precision", "precision_ratio") if name in told}
