"""Jobs start in an order that their dependencies and the room in their cluster allow."""

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded import cluster
from clusters.nodes import Capacity
from jobs.config import CATALOG, _dependency_problems, lost_inputs
from jobs.model.job import TrainingJob
from jobs.model.parts import Build, JobInput, Master, Volume
from jobs.plan import Schedule, described, fits, not_run, prerequisites, shares

KEY = "slipway:jobs"
OUTPUTS = {"outputs": "abfs://results/mine"}


def job(name: str, *depends_on: str, **fields: Any) -> TrainingJob:
    own: dict[str, Any] = {"module": "mnist", "memory": "1Gi", "depends_on": depends_on}
    return TrainingJob(name=name, **{**own, **fields})


def taking(name: str, other: str, **fields: Any) -> TrainingJob:
    return job(name, inputs={"model": JobInput(job=other, artifact="net.pt")}, **fields)


def sized(name: str, volume: str) -> TrainingJob:
    return job(name, volumes={volume: Volume(size="1Gi", mount_path="/mnt/x")})


def told(*jobs: TrainingJob) -> dict[str, str]:
    """Return what is wrong, by key below the jobs'."""
    found = list(_dependency_problems(jobs, [each.name for each in jobs], KEY))
    assert len({problem.key for problem in found}) == len(found), found
    return {problem.key.removeprefix(f"{KEY}."): problem.text for problem in found}


@pytest.mark.parametrize(
    ("jobs", "key", "text"),
    [
        ([job("a", "trian"), job("train")], "a.dependsOn[0]", '"train"? Allowed: train'),
        ([taking("x", "treain"), job("train")], "x.inputs.model.job", 'did you mean "train"?'),
        ([job("a", "mnist-gloo")], "a.dependsOn[0]", "is in the catalogue, but not in this stack"),
        ([taking("a", "a", **OUTPUTS)], "a.inputs.model.job", "is the job itself"),
        ([job("b", "b")], "b.dependsOn[0]", "is the job itself"),
        ([job("b", "a"), job("a", wait=False)], "b.dependsOn[0]", '"a" has `wait: false`'),
        ([sized("a", "b-c"), sized("a-b", "c")], "a-b.volumes.c", "the volume b-c of job a"),
        ([sized("slipway", "kept")], "slipway.volumes.kept", "that of the stack's files"),
    ],
)
def test_a_dependency_is_another_job_of_the_stack_and_a_claim_is_of_one_volume(
    jobs: list[TrainingJob], key: str, text: str
) -> None:
    ((found, said),) = told(*jobs).items()
    assert found == key
    assert text in said
    assert told(job("a", **OUTPUTS), job("b", "a"), taking("c", "a"), job("d", "b", "c")) == {}


def test_the_whole_of_a_cycle_is_named() -> None:
    [(key, text)] = told(job("a", "c"), job("b", "a"), job("c", "b"), job("f", "a")).items()
    around = {"a": "a needs c needs b needs a", "c": "c needs b needs a needs c"}
    around["b"] = "b needs a needs c needs b"
    assert f"dependency cycle: {around[key]};" in text


def test_where_a_stack_keeps_no_files_an_input_is_of_a_job_with_outputs() -> None:
    assert told(job("a"), taking("b", "a")) == {}
    (found,) = lost_inputs([job("a"), taking("b", "a"), job("c", **OUTPUTS), taking("d", "c")], KEY)
    assert found.key == f"{KEY}.b.inputs.model.job"
    assert '"a" has no `outputs`' in found.text


def test_each_starts_after_those_that_it_needs_and_builds_let_others_go_first() -> None:
    jobs = [job("e", "d"), job("a"), job("d", "b"), job("b"), job("c")]
    assert [each.name for each in Schedule(jobs, None).ordered] == ["a", "b", "d", "e", "c"]
    built = TrainingJob(name="a", build=Build(context="/mine"))
    jobs = [built, job("b"), job("c", "a"), job("d")]
    assert [each.name for each in Schedule(jobs, None).ordered] == ["b", "d", "a", "c"]


@given(st.permutations(range(6)), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_an_order_is_one_of_all_jobs(place: list[int], pairs: set[tuple[int, int]]) -> None:
    before = {n: [f"j{m}" for m, other in pairs if other == n and m < n] for n in range(6)}
    jobs = [job(f"j{n}", *before[n]) for n in place]
    found = Schedule(jobs, None).ordered
    assert sorted(each.name for each in found) == sorted(each.name for each in jobs)
    for number, each in enumerate(found):
        assert set(prerequisites(each)) <= {other.name for other in found[:number]}


_FAILED = {"b": "it needs a, which ended Failed"}
_REFUSED = {"b": "it needs a, which failed its gate"}
_SKIPPED = {"c": "it needs b, which did not run"}


@pytest.mark.parametrize(
    ("states", "passed", "expected"),
    [
        (("Succeeded", "Succeeded", "Succeeded"), "abc", {}),
        (("Failed", None, None), "", {**_FAILED, **_SKIPPED}),
        (("Succeeded", None, None), "", {**_REFUSED, **_SKIPPED}),
        # Its own error tells why, and its followers' is that it did not run.
        (("Succeeded", None, None), "a", _SKIPPED),
        # The gates of those that were skipped may be there from before.
        (("Failed", None, None), "bc", {**_FAILED, **_SKIPPED}),
        # It ran, and failed by itself: nobody waited for anything.
        (("Succeeded", "Succeeded", "TimedOut"), "ab", {}),
    ],
)
def test_a_job_that_did_not_run_has_a_reason(
    states: tuple[str | None, ...], passed: str, expected: dict[str, str]
) -> None:
    jobs = [job("a"), job("b", "a"), job("c", "b")]
    gates = {name: name in passed for name in "abc"}
    assert not_run(jobs, dict(zip("abc", states, strict=True)), gates) == expected


def room(cpu: str = "2", memory: int = 6, gpus: int = 0, nodes: int = 1) -> Capacity:
    return Capacity(Decimal(cpu), memory * 2**30, gpus, nodes)


@pytest.mark.parametrize(
    ("fields", "capacity", "expected"),
    [
        ({"cpu": "1"}, room("2"), True),
        ({"cpu": "1"}, room("1.99"), False),
        ({"cpu": "1500m"}, room("2", nodes=1), False),
        ({"cpu": "3"}, room("2", nodes=9), False),
        ({"memory": "3Gi"}, room(memory=6), True),
        ({"memory": "3500Mi"}, room(memory=6), False),
        ({"backend": "nccl"}, room(gpus=1), False),
        ({"backend": "nccl"}, room(gpus=1, nodes=2), True),
        # The large one has to be placed first.
        ({"cpu": "500m", "workers": 2, "master": Master(cpu="2")}, room("2", nodes=2), True),
    ],
)
def test_a_job_fits_when_all_of_its_pods_find_a_node(
    fields: dict[str, Any], capacity: Capacity, expected: bool
) -> None:
    assert fits(shares(job("a", **fields)), capacity) is expected


@pytest.mark.parametrize(
    ("cores", "capacity", "waits"),
    [
        (("0.4", "0.4", "0.4", "0.4"), room("2"), {"c": ("a",), "d": ("a", "b")}),
        (("0.4", "0.4", "0.4"), room("3"), {}),
        (("0.5", "0.5", "0.9", "0.5"), room("2"), {"c": ("a", "b"), "d": ("c",)}),
        (("99", "99"), None, {}),
    ],
    ids=["one at the time goes", "room for all", "as many as it needs", "unknown capacity"],
)
def test_a_job_waits_for_those_whose_room_it_needs(
    cores: tuple[str, ...], capacity: Capacity | None, waits: dict[str, tuple[str, ...]]
) -> None:
    jobs = [job(name, cpu=cpu) for name, cpu in zip("abcd", cores, strict=False)]
    found = Schedule(jobs, capacity).waits
    assert found == {**dict.fromkeys("abcd"[: len(jobs)], ()), **waits}


def test_a_prerequisite_has_made_room_already() -> None:
    jobs = [job("a", cpu="900m"), job("b", "a", cpu="900m")]
    assert Schedule(jobs, room("2")).waits == {"a": (), "b": ()}


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


def test_the_needs_of_all_jobs_stand_against_what_the_cluster_has() -> None:
    both = [CATALOG["mnist-gloo"], CATALOG["cifar-gloo"]]
    alone = "the cluster has 1 node with 1.9 cores, 4 GiB for jobs"
    capacity = room("1.9", memory=4)
    assert Schedule(both, capacity).text() == (
        f"the stack's 2 jobs need 6 pods with 3.2 cores, 5 GiB in total; {alone}; "
        "the jobs to train run in this order: mnist-gloo; then cifar-gloo"
    )
    needed = described(shares(CATALOG["mnist-nccl"]))
    assert needed == "2 pods with 4 cores, 2 GiB, 2 x nvidia.com/gpu in total"
    assert Schedule(both[:1], capacity).text() == alone
    assert Schedule(both[:1], None).text() == ""
