"""Assign samples to workers, each sample exactly once per epoch. Does not import torch.

`batches` is for a fixed world of ranks, `Ledger` for workers that join and leave. Each step takes
the next samples in the epoch's order, one batch per worker in rank order, so every rank
computes the same assignment without communication.

The ledger belongs to the model: an index counts once the optimizer has taken its step, and a worker
that adopts another worker's model also adopts its ledger. Samples whose training was lost together
with a model are assigned again.
"""

import base64
import hashlib
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

Order = TypeVar("Order", bound=Sequence[int])
"""The order of an epoch's samples: a list, or a one-dimensional tensor of indices."""


def batches(
    order: Order, batch_size: int, rank: int, world_size: int, start: int = 0
) -> Iterator[tuple[Order, int]]:
    """Yield this rank's share of each global batch, and the number of samples in that batch.

    All ranks have already trained on the first `start` samples of the order.

    A global batch is `batch_size * world_size` samples, assigned in turn; the last one holds
    whatever is left, so a rank may get one sample fewer than another, or none. Unlike torch's
    DistributedSampler, this never pads, drops or repeats samples. All ranks yield the same number
    of batches.
    """
    global_size = batch_size * world_size
    for begin in range(start, len(order), global_size):
        batch = order[begin : begin + global_size]
        yield batch[rank::world_size], len(batch)  # type: ignore[misc]  # a slice keeps the type


@dataclass(frozen=True)
class Terms:
    """The settings that all workers in a job must share: arguments of `RecordIndexService`."""

    size: int
    batch_size: int
    epochs: int
    shuffle: bool
    seed: int


@dataclass
class Ledger:
    """The state of the assignment of samples to workers, between two steps."""

    terms: Terms
    epoch: int = 1
    step: int = 0
    """Optimizer steps applied to the model, over all epochs."""
    version: int = 0
    """Increases with each change, so the newer of two ranks' ledgers has the higher version."""
    position: int = 0
    """The number of samples, in this epoch's order, that the model has been trained on."""
    counts: bytearray = field(default_factory=bytearray)
    """For each index, the number of times the model was trained on it in this epoch."""
    audits: list[dict[str, Any]] = field(default_factory=list)
    """Audits of closed epochs."""

    def __post_init__(self) -> None:
        self._order = list(range(0 if self.finished else self.terms.size))
        if not self.counts:
            self.counts = bytearray(len(self._order))
        if self.terms.shuffle:
            # Python's generator gives the same order on every machine, in all releases since 3.2.
            random.Random(f"{self.terms.seed}/{self.epoch}").shuffle(self._order)  # noqa: S311

    @property
    def epoch_complete(self) -> bool:
        """True if the model has been trained on all samples in this epoch."""
        return self.position >= len(self._order)

    @property
    def finished(self) -> bool:
        """True if the last epoch is closed."""
        return self.epoch > self.terms.epochs

    @property
    def counted(self) -> int:
        """The number of indices the model was trained on, over all epochs."""
        return self.terms.size * (self.epoch - 1) + sum(self.counts)

    def share(self, rank: int) -> list[int]:
        """Return a rank's indices in the next step, possibly none."""
        start = self.position + rank * self.terms.batch_size
        return self._order[start : start + self.terms.batch_size]

    def planned(self, workers: int) -> int:
        """Return how many samples `workers` workers process in the next step."""
        return min(workers * self.terms.batch_size, len(self._order) - self.position)

    def first_batch(self) -> list[int]:
        return self._order[: self.terms.batch_size]

    def advance(self, workers: int) -> None:
        """Record, after the optimizer step, that the model was trained on the step's indices."""
        end = self.position + self.planned(workers)
        for index in self._order[self.position : end]:
            self.counts[index] += 1
        self.position = end
        self.step += 1
        self.version += 1

    def close_epoch(self) -> None:
        """Start the next epoch; raises `RuntimeError` unless each index was counted once."""
        audit = self.audit()
        if not self.epoch_complete or audit["counted_once"] != self.terms.size:
            raise RuntimeError(f"epoch {self.epoch} is not complete: {audit}")
        self.audits.append(audit)
        self.epoch += 1
        self.version += 1
        self.position, self.counts = 0, bytearray()
        self.__post_init__()

    def audit(self) -> dict[str, Any]:
        """Return statistics on how often this epoch's indices were counted.

        `sha256` hashes one byte per index, its count, in the data set's order.
        """
        once = self.counts.count(1)
        missing = self.counts.count(0)
        return {
            "epoch": self.epoch,
            "indices": self.terms.size,
            "counted_once": once,
            "missing": missing,
            "repeated": self.terms.size - once - missing,
            "sha256": hashlib.sha256(self.counts).hexdigest(),
        }

    def dump(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        return asdict(self) | {"counts": base64.b64encode(zlib.compress(self.counts)).decode()}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "Ledger":
        """Return the ledger that `dump` saved."""
        counts = bytearray(zlib.decompress(base64.b64decode(state["counts"])))
        changed = {"terms": Terms(**state["terms"]), "counts": counts}
        return cls(**{**state, **changed, "audits": list(state["audits"])})
