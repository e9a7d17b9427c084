"""Who trains on which sample: every sample exactly once per epoch, whatever the world size."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Order = TypeVar("Order", bound=Sequence[int])
"""The order of an epoch's samples: a list, or a one-dimensional tensor of indices."""


def batches(
    order: Order, batch_size: int, rank: int, world_size: int, start: int = 0
) -> Iterator[tuple[Order, int]]:
    """Yield this rank's share of each global batch, and how many samples that batch has.

    The first `start` samples of the order are those that all ranks have done already.

    A global batch is `batch_size * world_size` samples; the last one is what is left. Its
    samples are dealt out in turn, so in the last one a rank may get one sample less than
    another, or none. No sample is padded, dropped or counted twice, which
    `torch.utils.data.DistributedSampler` does when the shards come out uneven. All ranks
    yield equally often, as a collective operation in every step needs.
    """
    global_size = batch_size * world_size
    for begin in range(start, len(order), global_size):
        batch = order[begin : begin + global_size]
        yield batch[rank::world_size], len(batch)  # type: ignore[misc]  # a slice keeps the type
