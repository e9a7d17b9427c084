"""Every sample of an epoch goes to exactly one rank."""

from hypothesis import given
from hypothesis import strategies as st

from slipway_trainer.demos.sharding import batches

_WORLDS = st.tuples(st.integers(0, 500), st.integers(1, 9), st.integers(1, 17))


@given(_WORLDS)
def test_no_sample_is_lost_or_used_twice(world: tuple[int, int, int]) -> None:
    samples, size, batch_size = world
    order = list(range(samples))
    dealt = [index for rank in range(size) for share, _ in batches(order, batch_size, rank, size)
             for index in share]  # fmt: skip
    assert sorted(dealt) == order


@given(_WORLDS)
def test_all_ranks_make_the_same_steps(world: tuple[int, int, int]) -> None:
    """With shares that differ by at most one sample, and agree on the batch's whole size."""
    samples, size, batch_size = world
    ranks = [list(batches(list(range(samples)), batch_size, rank, size)) for rank in range(size)]
    for step in zip(*ranks, strict=True):
        shares = [len(share) for share, _ in step]
        assert max(shares) - min(shares) <= 1
        assert max(shares) <= batch_size
        assert {whole for _, whole in step} == {sum(shares)}


@given(_WORLDS, st.integers(0, 40))
def test_an_epoch_goes_on_where_it_was_left(world: tuple[int, int, int], done: int) -> None:
    samples, size, batch_size = world
    order = list(range(samples))
    whole = list(batches(order, batch_size, 0, size))
    rest = list(batches(order, batch_size, 0, size, start=done * batch_size * size))
    assert rest == whole[done:]
