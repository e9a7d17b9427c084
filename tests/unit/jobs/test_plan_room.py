"""Jobs run side by side as far as the cluster has room for them."""

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded import cluster
from clusters.nodes import Capacity
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.parts import Master
from jobs.plan import Schedule, fits, prerequisites, shares

GIB = 2**30


def room(cpu: str = "2", memory: int = 6, gpus: int = 0, nodes: int = 1) -> Capacity:
    return Capacity(Decimal(cpu), memory * GIB, gpus, nodes)


def job(name: str = "a", **fields: Any) -> TrainingJob:
    return TrainingJob(name=name, module="mnist", **{"memory": "1Gi", **fields})


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
    small = [job(name, cpu="400m") for name in ("a", "b", "c", "d")]
    assert Schedule(small, room("2")).waits == {"a": (), "b": (), "c": ("a",), "d": ("a", "b")}
    assert Schedule(small[:3], room("3")).waits == {"a": (), "b": (), "c": ()}


def test_a_job_waits_for_as_many_as_it_needs_the_room_of() -> None:
    jobs = [job("a", cpu="500m"), job("b", cpu="500m"), job("c", cpu="900m"), job("d", cpu="500m")]
    assert Schedule(jobs, room("2")).waits == {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}


def test_what_a_job_needs_has_made_room_for_it_already() -> None:
    jobs = [job("a", cpu="900m"), job("b", cpu="900m", depends_on=("a",))]
    assert Schedule(jobs, room("2")).waits == {"a": (), "b": ()}


def test_without_a_known_capacity_nothing_waits() -> None:
    jobs = [job("a", cpu="99"), job("b", cpu="99")]
    assert Schedule(jobs, None).waits == {"a": (), "b": ()}
    assert Schedule([], room()).waits == {}


@st.composite
def _jobs(draw: st.DrawFn) -> list[TrainingJob]:
    """Return jobs in an order in which each needs only such as come before it."""
    made: list[TrainingJob] = []
    for number, tenths in enumerate(draw(st.lists(st.integers(1, 10), max_size=7))):
        names = [each.name for each in made]
        needed = tuple(draw(st.sets(st.sampled_from(names), max_size=2))) if names else ()
        made.append(job(f"j{number}", cpu=f"{tenths}00m", depends_on=needed))
    return made


@given(jobs=_jobs(), order=st.randoms(use_true_random=False))
def test_whatever_ends_each_starts_when_it_fits(jobs: list[TrainingJob], order: Random) -> None:
    waits = Schedule(jobs, room("2")).waits
    waiting, running, ended = list(jobs), list[TrainingJob](), set[str]()
    while waiting or running:
        ready = [each for each in waiting if {*prerequisites(each), *waits[each.name]} <= ended]
        running += ready
        waiting = [each for each in waiting if each not in ready]
        assert running, waiting
        assert fits([s for each in running for s in shares(each)], room("2"))
        ended.add(running.pop(order.randrange(len(running))).name)


@pytest.mark.parametrize("entry", CATALOG.values(), ids=lambda entry: str(entry.name))
def test_every_demo_fits_two_cores_and_six_gigabytes(
    entry: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 6 * 10**9 // 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    found = cluster.capacity(cluster.EmbeddedSettings(name="dev"))
    if entry.backend == "nccl":
        found = Capacity(Decimal(8), found.memory, 1, nodes=2)
    assert fits(shares(entry), found)


def test_this_machine_has_less_for_jobs_than_it_has() -> None:
    found = cluster.capacity(cluster.EmbeddedSettings(name="dev"))
    assert found.memory > 0
    assert found.nodes == 1
    assert found.cpu % 1 != 0


@pytest.mark.parametrize(
    ("idle", "end"),
    [
        ([], "; the jobs to train run in this order: a, b; then c; then d"),
        (["a"], "in this order: b, c; then d"),
        (["a", "b", "c"], "GiB in total"),
    ],
)
def test_the_order_of_jobs_that_are_not_done_is_on_one_line(idle: list[str], end: str) -> None:
    jobs = [job("a"), job("b"), job("c"), job("d", depends_on=("c",))]
    schedule = Schedule(jobs, None)
    schedule.__dict__["waits"] = {"a": (), "b": (), "c": ("a",), "d": ("b",)}
    assert schedule.text(idle).endswith(end)
