"""Hands out the indices of a data set, batch by batch, to the workers of an elastic job."""

from collections.abc import Iterator, Sequence
from typing import Any

from slipway_trainer.data.ledger import Ledger, Terms


class RecordIndexService:
    """The indices that this worker trains on; use it as a DataLoader's `batch_sampler`, or iterate.

    It hands out one batch at a time, the next one after the step of that one is made, so a
    DataLoader must read in its own process (`num_workers=0`). How many batches a worker gets
    depends on the workers there will be, so it has no length.

    A worker for which a step has no indices left, at the end of an epoch, gets a stand-in: the
    epoch's first indices. Its gradients have weight zero, and nothing of it is counted.

    Args:
        batch_size: Indices per worker and step.
        dataset_size: Indices in the data set.
        num_epochs: How often each index is to be trained on.
        shuffle: Give each epoch an order of its own, the same on all workers.
        dataset_name: What errors call the data set.
        seed: What the orders are made from.

    Raises:
        ValueError: a number is less than 1; all of them are named.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the names and the order that ElasticDL gave them
        self,
        batch_size: int,
        dataset_size: int,
        num_epochs: int = 1,
        shuffle: bool = True,
        dataset_name: str = "dataset",
        seed: int = 1,
    ) -> None:
        counts = {
            "batch_size": batch_size, "dataset_size": dataset_size, "num_epochs": num_epochs
        }  # fmt: skip
        wrong = ", ".join(f"{name}={count}" for name, count in counts.items() if count < 1)
        if wrong:
            raise ValueError(f"{dataset_name}: {wrong} not allowed, each takes 1 or more")
        self.dataset_name = dataset_name
        self.ledger = Ledger(Terms(dataset_size, batch_size, num_epochs, shuffle, seed))
        self.seen = 0
        """Samples that this worker trained on."""
        self._rank, self._workers = 0, 1
        self._handed: tuple[int, Sequence[int]] | None = None
        self._by_epoch = False
        self._ended = False

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this worker's batches: all that are left, inside `epochs` those of its epoch."""
        epoch = self.ledger.epoch
        while not self._over:
            if self._by_epoch and (self.ledger.epoch != epoch or self.ledger.epoch_complete):
                return
            if self.ledger.epoch_complete:
                self.ledger.close_epoch()
                continue
            if self._handed is not None and self._handed[0] == self.ledger.step:
                raise RuntimeError(
                    f"{self.dataset_name}: the next batch was asked for before the optimizer made "
                    "the step of the last one; read with num_workers=0, and let the function given "
                    "to elastic_run make one step per batch"
                )
            share = self.share()
            self._handed = (self.ledger.step, share)
            yield share or self.ledger.first_batch()

    def epochs(self) -> Iterator[int]:
        """Yield the numbers of the epochs left, within which iterating ends; close each one."""
        self._by_epoch = True
        while not self._over:
            epoch = self.ledger.epoch
            yield epoch
            # This worker may have been behind, and got a ledger in which the epoch is closed.
            if self.ledger.epoch == epoch and not self._over:
                self.ledger.close_epoch()

    def end(self, state: dict[str, Any]) -> None:
        """Take over the ledger of a job that the others have completed, and hand out no more."""
        self.ledger, self._handed, self._ended = Ledger.load(state), None, True

    @property
    def _over(self) -> bool:
        return self._ended or self.ledger.finished

    def share(self) -> list[int]:
        """Return the indices that this worker has in the step at hand, perhaps none."""
        return self.ledger.share(self._rank)

    @property
    def planned(self) -> int:
        """How many samples all workers have in the step at hand."""
        return self.ledger.planned(self._workers)

    @property
    def in_hand(self) -> bool:
        """Whether the batch that was handed out last is this worker's share of the step at hand."""
        return self._handed == (self.ledger.step, self.share())

    def made_step(self) -> None:
        """Count the step at hand, for all workers: the optimizer has made it."""
        self.seen += len(self.share())
        self.ledger.advance(self._workers)

    def take(self, state: dict[str, Any]) -> None:
        """Go on from a ledger that is further; raise `RuntimeError` for one of other terms."""
        ledger = Ledger.load(state)
        if ledger.terms != self.ledger.terms:
            raise RuntimeError(
                f"{self.dataset_name}: this worker was started with {self.ledger.terms}, the "
                f"others, or before, with {ledger.terms}; give all workers the same arguments"
            )
        self.ledger = ledger

    def enter(self, rank: int, workers: int) -> None:
        """Go on as `rank` of so many workers."""
        self._rank, self._workers = rank, workers
        # What was handed out may be what is at hand again: a step that failed is made again.
        if self._handed is not None and not self.in_hand:
            self._handed = None
