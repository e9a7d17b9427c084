"""The whole way down and up again, and killed anywhere on it; prints how long each took."""

import os
import random
import secrets

import pytest

from tests.engine.killing import assert_healed, kill, moments, train_with
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
    from_nothing = spare_stack.up().seconds
    train_with(spare_stack, 1)
    trained_again = spare_stack.up().seconds
    tell(capsys, f"undisturbed: {from_nothing:.1f} s from nothing, {trained_again:.1f} s to train")
    rounds = [(True, moment) for moment in moments(_FRESH, from_nothing, generator)]
    rounds += [(False, moment) for moment in moments(_AGAIN, trained_again, generator)]
    for number, (fresh, moment) in enumerate(rounds, start=1):
        if fresh:
            spare_stack.down()
        else:
            train_with(spare_stack, number + 1)
        killed = kill(spare_stack.scratch, generator.choice(("pulumi", "make up")), moment)
        healed = spare_stack.up()
        assert_healed(spare_stack, killed, healed)
        line = (
            f"{number:2}: {'from nothing' if fresh else 'to train'}, {killed.victim} killed after "
            f"{killed.seconds:.1f} s ({killed.phase}), healed in {healed.seconds:.1f} s"
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
