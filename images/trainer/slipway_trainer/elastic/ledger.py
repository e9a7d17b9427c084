"""Who trains on which sample in an elastic world, and which samples are in the model. No torch.

The order of an epoch is cut into shards. Each worker holds a lease on one shard and takes the
next batch of it in each step; without a lease it takes the next shard, and when there is none
left, half of what another worker has left. All of this follows from the ledger and from the list
of workers in rank order, so every rank computes the same assignment without asking anybody.

The ledger belongs to the model: an index counts once the optimizer has made the step it was in,
and a worker that takes over another one's model takes over its ledger, too. What was trained in a
model that is lost is then not counted, and it is leased out again.
"""

import base64
import hashlib
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Span = tuple[int, int]
"""Positions [start, end) in the order of the epoch."""


@dataclass(frozen=True)
class Plan:
    """What happens in one step: each worker's share, and the leases once the step is made.

    A worker's share may be empty, at the end of an epoch; not all shares are.
    """

    shares: Mapping[str, Span]
    leases: Mapping[str, Span]
    pool: Sequence[Span]


@dataclass(frozen=True)
class Terms:
    """What all workers of a job have to agree on: the arguments of `RecordIndexService`."""

    size: int
    batch_size: int
    shard_batches: int
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
    pool: list[Span] = field(default_factory=list)
    """Shards and remainders of shards that nobody has leased, in their order."""
    leases: dict[str, Span] = field(default_factory=dict)
    """The rest of its shard for each worker that has one."""
    counts: bytearray = field(default_factory=bytearray)
    """How often each index of this epoch is in the model."""
    audits: list[dict[str, Any]] = field(default_factory=list)
    """Of the epochs that are closed."""

    @classmethod
    def new(cls, terms: Terms) -> "Ledger":
        """Return the ledger of a job before its first step."""
        ledger = cls(terms)
        ledger._open_epoch()
        return ledger

    @property
    def epoch_complete(self) -> bool:
        """Whether nothing of this epoch is left to lease or to train on."""
        return not self.pool and not self.leases

    @property
    def finished(self) -> bool:
        """Whether the last epoch is closed."""
        return self.epoch > self.terms.epochs

    @property
    def counted(self) -> int:
        """How many indices are in the model, over all epochs."""
        return self.terms.size * (self.epoch - 1) + sum(self.counts)

    def plan(self, workers: Sequence[str]) -> Plan:
        """Return what each of `workers`, in rank order, takes in the next step; change nothing."""
        pool, leases = list(self.pool), dict(self.leases)
        for worker in workers:
            if worker not in leases and pool:
                leases[worker] = pool.pop(0)
        shares = {worker: self._first_batch(leases.get(worker, (0, 0))) for worker in workers}
        leases = {
            worker: (shares[worker][1], end)
            for worker, (_, end) in leases.items()
            if shares[worker][1] < end
        }
        for worker in workers:
            if shares[worker] == (0, 0) and leases:
                lent = self._half_of_the_longest(leases, workers)
                shares[worker] = self._first_batch(lent)
                if shares[worker][1] < lent[1]:
                    leases[worker] = (shares[worker][1], lent[1])
        return Plan(shares, leases, pool)

    def indices(self, share: Span) -> list[int]:
        """Return the data set's indices at the positions of a share."""
        return self._order[share[0] : share[1]]

    def advance(self, workers: Sequence[str]) -> None:
        """Count the next step's indices: the optimizer has made the step."""
        plan = self.plan(workers)
        for share in plan.shares.values():
            for index in self.indices(share):
                self.counts[index] += 1
        self.pool, self.leases = list(plan.pool), dict(plan.leases)
        self.step += 1
        self.version += 1

    def keep(self, workers: Sequence[str]) -> None:
        """Put the leases of all who are not among `workers` back into the pool."""
        lost = [span for worker, span in self.leases.items() if worker not in workers]
        self.leases = {worker: span for worker, span in self.leases.items() if worker in workers}
        self.pool = sorted([*self.pool, *lost])

    def close_epoch(self) -> None:
        """Go on to the next epoch, or raise `RuntimeError` where an index was not counted once."""
        audit = self.audit()
        if not self.epoch_complete or audit["counted_once"] != self.terms.size:
            raise RuntimeError(f"epoch {self.epoch} is not complete: {audit}")
        self.audits.append(audit)
        self.epoch += 1
        self.version += 1
        self._open_epoch()

    def audit(self) -> dict[str, Any]:
        """Return how often the indices of this epoch were counted.

        `sha256` is that of one byte per index in the data set's order, how often it was counted:
        for a complete epoch that of `size` bytes of value 1.
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
        ledger = cls(**state)
        ledger.terms = Terms(**state["terms"])
        ledger.pool = [(start, end) for start, end in state["pool"]]
        ledger.leases = {worker: (start, end) for worker, (start, end) in state["leases"].items()}
        ledger.counts = bytearray(zlib.decompress(base64.b64decode(state["counts"])))
        ledger.audits = list(state["audits"])
        ledger._shuffle()
        return ledger

    def _open_epoch(self) -> None:
        size, shard = self.terms.size, self.terms.batch_size * self.terms.shard_batches
        if self.finished:
            self.pool, self.counts = [], bytearray()
            return
        self.pool = [(start, min(start + shard, size)) for start in range(0, size, shard)]
        self.counts = bytearray(size)
        self._shuffle()

    def _shuffle(self) -> None:
        self._order = list(range(self.terms.size))
        if self.terms.shuffle:
            # Python's own generator gives the same order on every machine and release since 3.2.
            random.Random(f"{self.terms.seed}/{self.epoch}").shuffle(self._order)  # noqa: S311

    def _first_batch(self, span: Span) -> Span:
        return span[0], min(span[0] + self.terms.batch_size, span[1])

    def _half_of_the_longest(self, leases: dict[str, Span], workers: Sequence[str]) -> Span:
        """Take the later half, in whole batches, of the longest lease away from it."""
        longest = max(
            (worker for worker in workers if worker in leases),
            key=lambda worker: leases[worker][1] - leases[worker][0],
        )
        start, end = leases[longest]
        batches = -(-(end - start) // self.terms.batch_size)
        middle = start + batches // 2 * self.terms.batch_size
        if middle > start:
            leases[longest] = (start, middle)
        else:
            del leases[longest]
        return middle, end
