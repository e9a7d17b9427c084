"""An `up` that is killed anywhere on its way is healed by the next."""

import os
import random
import secrets

import pytest

from tests.engine.killing import VICTIMS, assert_healed, kill, moments, train_with
from tests.engine.stack import LiveStack
from tests.engine.test_life import assert_nothing_changed

_LEAST_SECONDS = {"from nothing": 30.0, "to train": 8.0}
"""How long an `up` takes at least, from nothing and to another training."""


@pytest.mark.parametrize(
    ("fresh", "again"),
    [pytest.param(1, 0, id="1 kill"), pytest.param(13, 7, id="20 kills", marks=pytest.mark.long)],
)
def test_a_kill_at_any_moment_is_healed_by_one_make_up(
    fresh: int, again: int, mortal_stack: LiveStack
) -> None:
    """The CLI alone or the whole command, from before the first resource to the gate."""
    stack = mortal_stack
    seed = os.environ.get("SLIPWAY_TEST_SEED", secrets.token_hex(4))
    print(f"SLIPWAY_TEST_SEED={seed} kills at the same moments again")  # noqa: T201
    generator = random.Random(seed)  # noqa: S311 - repeatable, not secret
    seconds = dict(_LEAST_SECONDS)
    rounds = [("from nothing", part) for part in moments(fresh, generator)]
    rounds += [("to train", part) for part in moments(again, generator)]
    for number, (way, part) in enumerate(rounds, start=1):
        if way == "from nothing" and stack.cluster.exists():
            stack.down()
        train_with(stack, number)
        victim = generator.choice(VICTIMS)
        killed = kill(stack.scratch, victim, part * seconds[way])
        healed = stack.up()
        assert_healed(stack, killed, healed)
        # Who had made little has shown how long it takes here and now.
        seconds[way] = max(seconds[way], healed.seconds)
        if number % 3 == 0:
            assert_nothing_changed(stack.up().text)
