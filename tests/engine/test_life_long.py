"""The whole way down and up again, and killed anywhere on it; prints how long each took."""

import os
import random
import secrets

import pytest

from tests.engine.killing import VICTIMS, assert_healed, kill, moments, train_with
from tests.engine.stack import LiveStack
from tests.engine.test_life import assert_nothing_changed

_TIMES = 3
_FRESH, _AGAIN = 13, 7
"""How many are killed on the way from nothing, and on the way to another training."""


@pytest.mark.long
def test_make_down_and_make_up_work_again_and_again(
    spare_stack: LiveStack, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for number in range(1, _TIMES + 1):
        up = spare_stack.up()
        result = spare_stack.job("mnist-gloo")
        assert result["state"] == "Succeeded", up
        again = spare_stack.up()
        down = spare_stack.down()
        lines.append(
            f"round {number}: up {up.seconds:.1f} s (training {result['duration_seconds']:.1f} s, "
            f"accuracy {result['accuracy']:.4f}), up again {again.seconds:.1f} s, "
            f"down {down.seconds:.1f} s"
        )
    with capsys.disabled():
        print("\n" + "\n".join(lines))  # noqa: T201 - the figures are what it is run for


@pytest.mark.long
def test_a_kill_at_any_moment_is_healed_by_one_make_up(
    spare_stack: LiveStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CLI alone or the whole command, from before the first resource to the gate."""
    seed = os.environ.get("SLIPWAY_TEST_SEED", secrets.token_hex(4))
    tell(capsys, f"\nSLIPWAY_TEST_SEED={seed} kills at the same moments again")
    generator = random.Random(seed)  # noqa: S311 - repeatable, not secret
    train_with(spare_stack, 0)
    seconds = {"from nothing": spare_stack.up().seconds}
    train_with(spare_stack, 1)
    seconds["to train"] = spare_stack.up().seconds
    tell(capsys, ", ".join(f"undisturbed {way}: {seconds[way]:.1f} s" for way in seconds))
    rounds = [("from nothing", part) for part in moments(_FRESH, generator)]
    rounds += [("to train", part) for part in moments(_AGAIN, generator)]
    for number, (way, part) in enumerate(rounds, start=1):
        if way == "from nothing":
            spare_stack.down()
        else:
            train_with(spare_stack, number + 1)
        victim = generator.choice(VICTIMS)
        killed = kill(spare_stack.scratch, victim, part * seconds[way])
        healed = spare_stack.up()
        assert_healed(spare_stack, killed, healed)
        if killed.early:
            seconds[way] = healed.seconds  # the machine may have become slower or faster
        line = (
            f"{number:2}: {way}, {killed.victim} killed after {killed.seconds:.1f} s "
            f"({killed.phase}), healed in {healed.seconds:.1f} s"
        )
        if number % 4 == 0:
            again = spare_stack.up()
            assert_nothing_changed(again.said)
            line += f", and nothing left to do ({again.seconds:.1f} s)"
        tell(capsys, line)


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Print a line now: the figures are what it is run for."""
    with capsys.disabled():
        print(line, flush=True)  # noqa: T201
