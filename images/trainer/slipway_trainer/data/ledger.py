"""Who trains on which sample: every sample exactly once per epoch, whatever the world. No torch.

`batches` says so for a fixed world of ranks, `Ledger` for workers that come and go. Each step takes
the next samples in the order of the epoch, a batch for each worker in rank order, so every rank
computes the same without asking anybody.

The ledger belongs to the model: an index counts once the optimizer has made the step it was in,
and a worker that takes over another one's model takes over its ledger, too. What was trained in a
model that is lost is next again, for whoever is there.
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
    """Yield this rank's share of each global batch, and how many samples that batch has.

    The first `start` samples of the order are those that all ranks have done already.

    A global batch is `batch_size * world_size` samples, dealt out in turn; the last one is what is
    left, so a rank may get one sample less than another, or none. No sample is padded, dropped or
    counted twice, as by torch's DistributedSampler, and all ranks yield equally often.
    """
    global_size = batch_size * world_size
    for begin in range(start, len(order), global_size):
        batch = order[begin : begin + global_size]
        yield batch[rank::world_size], len(batch)  # type: ignore[misc]  # a slice keeps the type


@dataclass(frozen=True)
class Terms:
    """What all workers of a job have to agree on: the arguments of `RecordIndexService`."""

    size: int
    batch_size: int
    epochs: int
    shuffle: bool
    seed: int


@dataclass
class Ledger:
    """The state of the assignment, between two steps."""

    terms: Terms
    epoch: int = 1
    step: int = 0
    """Optimizer steps that are in the model, over all epochs."""
    version: int = 0
    """Grows with each change that all ranks make: of one history the greater one is further."""
    position: int = 0
    """How many samples of this epoch's order are done."""
    counts: bytearray = field(default_factory=bytearray)
    """How often each index of this epoch is in the model."""
    audits: list[dict[str, Any]] = field(default_factory=list)
    """Of the epochs that are closed."""

    def __post_init__(self) -> None:
        self._order = list(range(0 if self.finished else self.terms.size))
        if not self.counts:
            self.counts = bytearray(len(self._order))
        if self.terms.shuffle:
            # Python's own generator gives the same order on every machine and release since 3.2.
            random.Random(f"{self.terms.seed}/{self.epoch}").shuffle(self._order)  # noqa: S311

    @property
    def epoch_complete(self) -> bool:
        """Whether nothing of this epoch is left to train on."""
        return self.position >= len(self._order)

    @property
    def finished(self) -> bool:
        """Whether the last epoch is closed."""
        return self.epoch > self.terms.epochs

    @property
    def counted(self) -> int:
        """How many indices are in the model, over all epochs."""
        return self.terms.size * (self.epoch - 1) + sum(self.counts)

    def share(self, rank: int) -> list[int]:
        """Return the data set's indices that a rank has in the next step, perhaps none."""
        start = self.position + rank * self.terms.batch_size
        return self._order[start : start + self.terms.batch_size]

    def planned(self, workers: int) -> int:
        """Return how many samples so many workers have in the next step."""
        return min(workers * self.terms.batch_size, len(self._order) - self.position)

    def first_batch(self) -> list[int]:
        return self._order[: self.terms.batch_size]

    def advance(self, workers: int) -> None:
        """Count the next step's indices: the optimizer has made the step."""
        end = self.position + self.planned(workers)
        for index in self._order[self.position : end]:
            self.counts[index] += 1
        self.position = end
        self.step += 1
        self.version += 1

    def close_epoch(self) -> None:
        """Go on to the next epoch, or raise `RuntimeError` where an index was not counted once."""
        audit = self.audit()
        if not self.epoch_complete or audit["counted_once"] != self.terms.size:
            raise RuntimeError(f"epoch {self.epoch} is not complete: {audit}")
        self.audits.append(audit)
        self.epoch += 1
        self.version += 1
        self.position, self.counts = 0, bytearray()
        self.__post_init__()

    def audit(self) -> dict[str, Any]:
        """Return how often the indices of this epoch were counted.

        `sha256` is that of one byte per index, its count, in the data set's order.
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
        """Return the state as JSON has it."""
        return asdict(self) | {"counts": base64.b64encode(zlib.compress(self.counts)).decode()}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "Ledger":
        """Return the ledger that `dump` wrote."""
        counts = bytearray(zlib.decompress(base64.b64decode(state["counts"])))
        changed = {"terms": Terms(**state["terms"]), "counts": counts}
        return cls(**{**state, **changed, "audits": list(state["audits"])})
