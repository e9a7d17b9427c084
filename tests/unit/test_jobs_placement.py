"""Jobs run side by side as far as the cluster has room for them, and in their order."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.capacity import Capacity
from clusters.embedded import machine
from jobs.catalog import CATALOG
from jobs.placement import fits, shares, waves
from jobs.spec import Master, TrainingJob

GIB = 2**30


def room(cpu: str = "2", memory: int = 6, gpus: int = 0, nodes: int = 1) -> Capacity:
    return Capacity(Decimal(cpu), memory * GIB, gpus, nodes)


def job(name: str = "a", **fields: Any) -> TrainingJob:
    return TrainingJob(name=name, module="mnist", **{"memory": "1Gi", **fields})


def names(groups: list[list[TrainingJob]]) -> list[list[str]]:
    return [[each.name for each in group] for group in groups]


@pytest.mark.parametrize(
    ("fields", "capacity", "expected"),
    [
        ({"cpu": "1"}, room("2"), True),
        ({"cpu": "1"}, room("1.99"), False),
        ({"cpu": "1"}, room("1", nodes=2), True),
        ({"cpu": "1500m"}, room("2", nodes=1), False),
        ({"cpu": "1500m"}, room("2", nodes=2), True),
        ({"cpu": "3"}, room("2", nodes=9), False),
        ({"memory": "3Gi"}, room(memory=6), True),
        ({"memory": "3500Mi"}, room(memory=6), False),
        ({"backend": "nccl"}, room(gpus=2), True),
        ({"backend": "nccl"}, room(gpus=1), False),
        ({"backend": "nccl"}, room(gpus=1, nodes=2), True),
        ({"workers": 0, "cpu": "2"}, room("2"), True),
        # The large one has to be placed first.
        ({"cpu": "500m", "workers": 2, "master": Master(cpu="2")}, room("2", nodes=2), True),
    ],
)
def test_a_job_fits_when_all_of_its_pods_find_a_node(
    fields: dict[str, Any], capacity: Capacity, expected: bool
) -> None:
    assert fits(shares(job(**fields)), capacity) is expected


def test_jobs_run_side_by_side_while_there_is_room() -> None:
    small = [job(name, cpu="400m") for name in ("a", "b", "c")]
    assert names(waves(small, room("2"))) == [["a", "b"], ["c"]]
    assert names(waves(small, room("3"))) == [["a", "b", "c"]]


def test_jobs_keep_their_order_also_where_a_later_one_would_fit() -> None:
    jobs = [job("a", cpu="500m"), job("b", cpu="900m"), job("c", cpu="300m")]
    assert names(waves(jobs, room("2"))) == [["a"], ["b"], ["c"]]


def test_without_a_known_capacity_nothing_waits() -> None:
    assert names(waves([job("a", cpu="99"), job("b", cpu="99")], None)) == [["a", "b"]]
    assert waves([], room()) == waves([], None) == []


@given(st.lists(st.integers(1, 10), max_size=8))
def test_every_job_is_in_one_wave_and_each_wave_has_room(tenths: list[int]) -> None:
    jobs = [job(f"j{i}", cpu=f"{t}00m") for i, t in enumerate(tenths)]
    found = waves(jobs, room("2"))
    assert [each for group in found for each in group] == jobs
    for group in found:
        assert fits([s for each in group for s in shares(each)], room("2"))


@pytest.mark.parametrize("entry", CATALOG.values(), ids=lambda entry: str(entry.name))
def test_every_demo_fits_two_cores_and_six_gigabytes(
    entry: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 6 * 10**9 // 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    found = machine.capacity()
    if entry.backend == "nccl":
        found = Capacity(Decimal(8), found.memory, 1, nodes=2)
    assert fits(shares(entry), found)


def test_this_machine_has_less_for_jobs_than_it_has() -> None:
    found = machine.capacity()
    assert found.memory > 0
    assert found.nodes == 1
    assert found.cpu % 1 != 0
