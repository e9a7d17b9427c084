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


@given(_maps, _maps, strategies.dictionaries(strategies.text("xyz", min_size=1), _leaves))
def test_different_inputs_differ_and_outputs_do_not(
    before: dict[str, object], now: dict[str, object], outputs: dict[str, object]
) -> None:
    shared = {name: before[name] for name in before if name in now}
    assert bool(compare({**shared, **outputs}, now)) == (shared != now)


def test_each_leaf_is_named_by_its_path_in_order() -> None:
    before = {"spec": {"workers": 1, "gone": 1, "same": 1}, "map": {"a": 1}, "output": 1}
    now = {"spec": {"workers": 2, "example.org/a": 1, "same": 1}, "map": 2, "added": 1}
    assert compare(before, now) == [
        Change("added", "add"),
        Change("map", "update"),
        Change("spec.gone", "delete"),
        Change("spec.workers", "update"),
        Change('spec["example.org/a"]', "add"),
    ]
