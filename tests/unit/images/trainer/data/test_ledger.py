"""Every index is in the model exactly once: of a fixed world, and whatever happens to workers."""

import copy
import hashlib
import json
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_trainer.data.ledger import Ledger, Terms, batches

_WORLDS = st.tuples(st.integers(0, 500), st.integers(1, 9), st.integers(1, 17))
_TERMS = st.builds(
    Terms,
    size=st.integers(1, 60),
    batch_size=st.integers(1, 7),
    epochs=st.integers(1, 3),
    shuffle=st.booleans(),
    seed=st.integers(0, 9),
)


@dataclass
class Worker:
    """A worker of the simulation; its model is the indices that it was trained on, by epoch."""

    name: str
    ledger: Ledger
    model: list[tuple[int, int]]

    def make_step(self, workers: list[str]) -> None:
        """Train on the indices of all workers, as the averaged gradients do."""
        shares = [self.ledger.share(rank) for rank in range(len(workers))]
        self.model += [(self.ledger.epoch, index) for share in shares for index in share]
        self.ledger.advance(len(workers))


def _form(workers: list[Worker], newcomers: list[Worker]) -> list[Worker]:
    """Let all go on from the state of the worker that is furthest."""
    furthest = max(workers, key=lambda worker: worker.ledger.version)
    state, model = json.dumps(furthest.ledger.dump()), list(furthest.model)
    for worker in (*workers, *newcomers):
        worker.ledger, worker.model = Ledger.load(json.loads(state)), list(model)
    return [*workers, *newcomers]


def _lose(workers: list[Worker], data: st.DataObject) -> list[Worker]:
    """Make a step that fails for some, lose some or none, and let the others go on."""
    names = [worker.name for worker in workers]
    lost = data.draw(st.sets(st.sampled_from(names), max_size=len(names) - 1))
    behind = data.draw(st.sets(st.sampled_from(names)))
    for worker in workers:
        if worker.name not in behind:
            worker.make_step(names)
    return _form([worker for worker in workers if worker.name not in lost], [])


@given(terms=_TERMS, count=st.integers(1, 4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_each_index_is_trained_on_once(terms: Terms, count: int, data: st.DataObject) -> None:
    workers = [Worker(f"w{number}", Ledger(terms), []) for number in range(count)]
    newcomers = iter(range(count, 1000))
    while not workers[0].ledger.finished:
        names = [worker.name for worker in workers]
        assert all(worker.ledger == workers[0].ledger for worker in workers)
        event = data.draw(st.sampled_from(["step", "step", "step", "loss", "join"]))
        if workers[0].ledger.epoch_complete:
            for worker in workers:
                worker.ledger.close_epoch()
        elif event == "step":
            for worker in workers:
                worker.make_step(names)
        elif event == "loss":
            workers = _lose(workers, data)
        elif len(workers) < 5:
            workers = _form(workers, [Worker(f"w{next(newcomers)}", Ledger(terms), [])])
    epochs = range(1, terms.epochs + 1)
    for worker in workers:
        assert sorted(worker.model) == [*product(epochs, range(terms.size))]
        once = [audit["counted_once"] for audit in worker.ledger.audits]
        assert once == [terms.size] * terms.epochs


@given(terms=_TERMS, count=st.integers(1, 5))
@settings(deadline=None)
def test_shares_of_a_step_are_disjoint_and_at_most_a_batch(terms: Terms, count: int) -> None:
    ledger = Ledger(terms)
    while not ledger.epoch_complete:
        shares = [ledger.share(rank) for rank in range(count)]
        taken = [index for share in shares for index in share]
        assert len(taken) == len(set(taken)) == ledger.planned(count) > 0
        assert max(map(len, shares)) <= terms.batch_size
        ledger.advance(count)


def test_each_epoch_has_an_order_of_its_own_and_a_checksum_of_its_counts() -> None:
    ledger = Ledger(Terms(50, 50, 2, shuffle=True, seed=1))
    assert ledger.audit()["missing"] == 50
    first = ledger.share(0)
    ledger.advance(1)
    audit = ledger.audit()
    assert (audit["counted_once"], audit["missing"], audit["repeated"]) == (50, 0, 0)
    assert audit["sha256"] == hashlib.sha256(b"\x01" * 50).hexdigest()
    ledger.close_epoch()
    second = ledger.share(0)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))


def test_an_epoch_that_lacks_an_index_or_has_one_twice_is_not_closed() -> None:
    ledger = Ledger(Terms(20, 10, 1, shuffle=False, seed=1))
    with pytest.raises(RuntimeError, match="'missing': 20"):
        ledger.close_epoch()
    ledger.advance(1)
    twice = copy.deepcopy(ledger)
    ledger.advance(1)
    twice.position = 0
    twice.advance(1)
    twice.position = 20
    with pytest.raises(RuntimeError, match="'repeated': 10"):
        twice.close_epoch()
    ledger.close_epoch()
    assert ledger.finished


@given(_WORLDS, st.integers(0, 40))
def test_ranks_make_the_same_steps_and_no_sample_is_lost_or_used_twice(
    world: tuple[int, int, int], done: int
) -> None:
    """With shares that differ by at most one sample, and agree on the batch's whole size.

    An epoch goes on where it was left.
    """
    samples, size, batch_size = world
    order = list(range(samples))
    ranks = [list(batches(order, batch_size, rank, size)) for rank in range(size)]
    assert sorted(index for steps in ranks for share, _ in steps for index in share) == order
    for step in zip(*ranks, strict=True):
        shares = [len(share) for share, _ in step]
        assert max(shares) - min(shares) <= 1
        assert max(shares) <= batch_size
        assert {whole for _, whole in step} == {sum(shares)}
    rest = list(batches(order, batch_size, 0, size, start=done * batch_size * size))
    assert rest == ranks[0][done:]
