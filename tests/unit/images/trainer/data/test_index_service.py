"""What a worker is handed, batch by batch."""

import pytest

from slipway_trainer.data.index_service import RecordIndexService


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
