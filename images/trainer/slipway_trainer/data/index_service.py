"""Assign a data set's indices, batch by batch, to the workers in an elastic job."""

from collections.abc import Iterator, Sequence
from typing import Any

from slipway_trainer.data.ledger import Ledger, Terms


class RecordIndexService:
    """This worker's share of the indices: a `batch_sampler` for a DataLoader, or an iterable.

    It yields one batch at a time, and the next only after the optimizer step, so a DataLoader
    must read in its own process (`num_workers=0`). It has no length, because the number of batches
    depends on how many workers there will be.

    At the end of an epoch, a worker left without indices in a step gets the epoch's first indices
    instead. Its gradients have weight zero, and these indices are not counted.

    Args:
        batch_size: Indices per worker and step.
        dataset_size: Indices in the data set.
        num_epochs: How many times each index is trained on.
        shuffle: Use a different order in each epoch, the same on all workers.
        dataset_name: The data set's name for error messages.
        seed: The seed for the orders.

    Raises:
        ValueError: Some counts are less than 1; the message lists all of them.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - names and order are those of ElasticDL
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
            raise ValueError(f"{dataset_name}: {wrong} not allowed; each must be 1 or more")
        self.dataset_name = dataset_name
        self.ledger = Ledger(Terms(dataset_size, batch_size, num_epochs, shuffle, seed))
        self.seen = 0
        """Samples that this worker trained on."""
        self._rank, self._workers = 0, 1
        self._handed: tuple[int, Sequence[int]] | None = None
        self._by_epoch = False
        self._ended = False

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this worker's remaining batches; inside `epochs`, only the current epoch's."""
        epoch = self.ledger.epoch
        while not self._over:
            if self._by_epoch and (self.ledger.epoch != epoch or self.ledger.epoch_complete):
                return
            if self.ledger.epoch_complete:
                self.ledger.close_epoch()
                continue
            if self._handed is not None and self._handed[0] == self.ledger.step:
                raise RuntimeError(
                    f"{self.dataset_name}: the next batch was requested before the optimizer step "
                    "for the last one; read with num_workers=0, and make one step per batch in the "
                    "function passed to elastic_run"
                )
            share = self.share()
            self._handed = (self.ledger.step, share)
            yield share or self.ledger.first_batch()

    def epochs(self) -> Iterator[int]:
        """Yield each remaining epoch's number, and close the epoch afterwards.

        Once this is in use, iterating over batches stops at the end of each epoch.
        """
        self._by_epoch = True
        while not self._over:
            epoch = self.ledger.epoch
            yield epoch
            # A worker that was behind may have adopted a ledger that closed the epoch already.
            if self.ledger.epoch == epoch and not self._over:
                self.ledger.close_epoch()

    def end(self, state: dict[str, Any]) -> None:
        """Adopt the ledger of a job that the other workers completed; no batches are left then."""
        self.ledger, self._handed, self._ended = Ledger.load(state), None, True

    @property
    def _over(self) -> bool:
        return self._ended or self.ledger.finished

    def share(self) -> list[int]:
        """Return this worker's indices in the current step, possibly none."""
        return self.ledger.share(self._rank)

    @property
    def planned(self) -> int:
        """The number of samples that all workers process in the current step."""
        return self.ledger.planned(self._workers)

    @property
    def in_hand(self) -> bool:
        """True if the last batch that was yielded is this worker's share of the current step."""
        return self._handed == (self.ledger.step, self.share())

    def made_step(self) -> None:
        """Record, after the optimizer step, that all workers trained on their shares."""
        self.seen += len(self.share())
        self.ledger.advance(self._workers)

    def take(self, state: dict[str, Any]) -> None:
        """Adopt another worker's newer ledger; raises `RuntimeError` if its terms differ."""
        ledger = Ledger.load(state)
        if ledger.terms != self.ledger.terms:
            raise RuntimeError(
                f"{self.dataset_name}: this worker started with {self.ledger.terms}, but the other "
                f"workers or the last run used {ledger.terms}; pass the same arguments everywhere"
            )
        self.ledger = ledger

    def enter(self, rank: int, workers: int) -> None:
        """Continue as rank `rank` in a world of `workers` workers."""
        self._rank, self._workers = rank, workers
        # After a failed step, the last batch may be the current share again.
        if self._handed is not None and not self.in_hand:
            self._handed = None
