"""What differs between a resource's last state and its inputs, by path."""

from hypothesis import given, strategies

from core.handler import Change, compare

_leaves = strategies.none() | strategies.booleans() | strategies.integers() | strategies.text()
_names = strategies.text("abc", min_size=1, max_size=2)
_maps = strategies.recursive(
    strategies.dictionaries(_names, _leaves),
    lambda inner: strategies.dictionaries(_names, _leaves | inner),
    max_leaves=10,
)


@given(_maps, strategies.dictionaries(strategies.text("xyz", min_size=1), _leaves))
def test_outputs_are_no_difference(inputs: dict[str, object], outputs: dict[str, object]) -> None:
    assert compare({**inputs, **outputs}, inputs) == []


@given(_maps, _maps)
def test_different_inputs_differ(before: dict[str, object], now: dict[str, object]) -> None:
    shared = {name: before[name] for name in before if name in now}
    assert bool(compare(shared, now)) == (shared != now)


def test_each_leaf_is_named_by_its_path_in_order() -> None:
    before = {"spec": {"workers": 1, "gone": 1, "same": 1}, "lists": [1], "output": 1}
    now = {"spec": {"workers": 2, "new": 1, "same": 1}, "lists": [1, 2], "added": 1}
    assert compare(before, now) == [
        Change("added", "add"),
        Change("lists", "update"),
        Change("spec.gone", "delete"),
        Change("spec.new", "add"),
        Change("spec.workers", "update"),
    ]


def test_a_map_that_becomes_a_leaf_is_one_change() -> None:
    assert compare({"spec": {"a": 1}}, {"spec": 2}) == [Change("spec", "update")]


def test_a_key_that_is_no_plain_word_stands_in_brackets() -> None:
    before, now = ({"labels": {"team": team, "example.org/team": team}} for team in "ab")
    paths = [change.path for change in compare(before, now)]
    assert paths == ["labels.team", 'labels["example.org/team"]']
