"""A goal says when all ranks may stop."""

import pytest

from slipway_trainer.training.goals import Goal, parse, task1_time_to_accuracy_goal


def test_a_goal_is_read_from_text() -> None:
    for metric, value in (("accuracy", 0.98), ("top5_accuracy", 1), ("val_loss", 1.5)):
        assert parse(f"{metric}={value}") == Goal(metric, value)
        assert str(parse(f"{metric}={value}")) == f"{metric}={value}"


@pytest.mark.parametrize(
    "text",
    ["", "accuracy", "accuracy=high", "accuracy=98", "accuracy=0", "loss=0.1", "val_loss=inf"],
)
def test_what_is_no_goal_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"METRIC=VALUE, such as accuracy=0\.98"):
        parse(text)


def test_a_goal_is_reached_at_its_value_and_a_losss_from_above() -> None:
    goal = Goal("accuracy", 0.98)
    assert not goal.reached({"accuracy": 0.9799})
    assert goal.reached({"accuracy": 0.98})
    assert task1_time_to_accuracy_goal.reached({"accuracy": 0.8})
    for name in ("val_loss", "test_loss"):
        goal = Goal(name, 0.3)
        assert not goal.reached({"loss": 0.3001, "accuracy": 1.0})
        assert goal.reached({"loss": 0.3})
        assert goal.reached({"loss": 0.5, name: 0.2})
    assert Goal("perplexity", 12).reached({"perplexity": 11.5})
    with pytest.raises(ValueError, match=r"top5_accuracy=0\.9 needs a metric"):
        Goal("top5_accuracy", 0.9).reached({"loss": 1.0, "accuracy": 0.95})
