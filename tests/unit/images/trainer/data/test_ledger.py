"""Every index is in the model exactly once, whatever happens to workers, batch by batch."""

import copy
import hashlib
import json
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_trainer.data.index_service import RecordIndexService
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

    ledger: Ledger
    model: list[tuple[int, int]] = field(default_factory=list)

    def make_step(self, workers: int) -> None:
        """Train on the indices of all workers, as the averaged gradients do."""
        shares = [self.ledger.share(rank) for rank in range(workers)]
        assert max(map(len, shares)) <= self.ledger.terms.batch_size
        assert sum(map(len, shares)) == self.ledger.planned(workers) > 0
        self.model += [(self.ledger.epoch, index) for share in shares for index in share]
        self.ledger.advance(workers)


def _form(workers: list[Worker], count: int) -> list[Worker]:
    """Let so many go on from the state of the worker that is furthest."""
    furthest = max(workers, key=lambda worker: worker.ledger.version)
    state = json.dumps(furthest.ledger.dump())
    return [Worker(Ledger.load(json.loads(state)), [*furthest.model]) for _ in range(count)]


def _lose(workers: list[Worker], data: st.DataObject) -> list[Worker]:
    """Make a step that fails for some, lose some or none, and let the others go on."""
    left = data.draw(st.sets(st.sampled_from(range(len(workers))), min_size=1))
    behind = data.draw(st.sets(st.sampled_from(range(len(workers)))))
    for number, worker in enumerate(workers):
        if number not in behind:
            worker.make_step(len(workers))
    return _form([workers[number] for number in left], len(left))


@given(terms=_TERMS, count=st.integers(1, 5), data=st.data())
@settings(max_examples=60)
def test_each_index_is_trained_on_once(terms: Terms, count: int, data: st.DataObject) -> None:
    workers = [Worker(Ledger(terms)) for _ in range(count)]
    while not workers[0].ledger.finished:
        assert all(worker.ledger == workers[0].ledger for worker in workers)
        event = data.draw(st.sampled_from(["step", "step", "step", "loss", "join"]))
        if workers[0].ledger.epoch_complete:
            for worker in workers:
                worker.ledger.close_epoch()
        elif event == "step":
            for worker in workers:
                worker.make_step(len(workers))
        elif event == "loss":
            workers = _lose(workers, data)
        elif len(workers) < 5:
            workers = _form(workers, len(workers) + 1)
    epochs = range(1, terms.epochs + 1)
    for worker in workers:
        assert sorted(worker.model) == [*product(epochs, range(terms.size))]
        once = [audit["counted_once"] for audit in worker.ledger.audits]
        assert once == [terms.size] * terms.epochs


def test_each_epoch_has_an_order_of_its_own_and_a_checksum_of_its_counts() -> None:
    ledger = Ledger(Terms(50, 50, 2, shuffle=True, seed=1))
    first = ledger.share(0)
    ledger.advance(1)
    assert ledger.audit()["sha256"] == hashlib.sha256(b"\x01" * 50).hexdigest()
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
    """Shares differ by at most one sample, and an epoch goes on where it was left."""
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


def _service(epochs: int = 1, size: int = 25) -> RecordIndexService:
    return RecordIndexService(10, size, epochs, shuffle=False, dataset_name="digits")


@pytest.mark.parametrize("inside_epochs", [False, True])
def test_alone_it_hands_out_all_batches_of_all_epochs(inside_epochs: bool) -> None:
    service = _service(epochs=2)
    batches: list[list[int]] = []
    for epoch in service.epochs() if inside_epochs else [1]:
        assert len(batches) == 3 * (epoch - 1), "inside epochs it ends with each epoch"
        for batch in service:
            batches.append(batch)
            service.made_step()
    assert [len(batch) for batch in batches] == [10, 10, 5, 10, 10, 5]
    assert [index for batch in batches[:3] for index in batch] == list(range(25))
    assert service.seen == 50
    assert service.ledger.finished


def test_a_batch_that_is_fetched_ahead_is_refused() -> None:
    batches = iter(_service())
    next(batches)
    with pytest.raises(RuntimeError, match="num_workers=0"):
        next(batches)


def test_a_worker_without_a_share_gets_a_stand_in_that_does_not_count() -> None:
    ours, theirs = _service(size=10), _service(size=10)
    ours.enter(1, 2)
    theirs.enter(0, 2)
    assert next(iter(ours)) == list(range(10))
    assert ours.share() == []
    assert next(iter(theirs)) == theirs.share() == list(range(10))
    ours.made_step()
    assert ours.seen == 0
    assert ours.ledger.audit()["counted_once"] == 10


def test_a_worker_that_was_behind_drops_its_batch_and_gets_the_next() -> None:
    ours, theirs = _service(size=50), _service(size=50)
    for rank, service in enumerate((ours, theirs)):
        service.enter(rank, 3)
    batches = iter(ours)
    next(batches)
    theirs.made_step()
    ours.take(theirs.ledger.dump())
    ours.enter(0, 2)
    assert not ours.in_hand
    assert next(batches) == list(range(30, 40))


def test_a_lost_workers_share_is_the_next_of_those_who_are_left() -> None:
    """And the batch that they have in hand stays theirs."""
    service = _service(size=50)
    service.enter(0, 3)
    service.made_step()
    assert service.planned == 20
    service.enter(1, 2)
    assert service.share() == list(range(40, 50))
    service = _service()
    service.enter(0, 2)
    batch = next(iter(service))
    service.enter(0, 1)
    assert service.in_hand
    assert service.share() == batch


def test_workers_with_other_or_wrong_arguments_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"digits.*size=30.*size=25.*same arguments"):
        _service(size=30).take(_service().ledger.dump())
    with pytest.raises(ValueError, match=r"digits: batch_size=0, num_epochs=-1 not allowed"):
        RecordIndexService(0, 10, -1, dataset_name="digits")
