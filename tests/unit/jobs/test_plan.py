"""What jobs need of each other: told when they can't have it, and in which order they start."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.config import _dependency_problems, lost_inputs
from jobs.model.job import TrainingJob
from jobs.model.parts import Build, JobInput
from jobs.plan import Schedule, not_run, prerequisites

KEY = "slipway:jobs"
OUTPUTS = {"outputs": "abfs://results/mine"}


def job(name: str, *depends_on: str, **fields: Any) -> TrainingJob:
    return TrainingJob(name=name, **{"module": "mnist", "depends_on": depends_on, **fields})


def taking(name: str, other: str, **fields: Any) -> TrainingJob:
    return job(name, inputs={"model": JobInput(job=other, artifact="net.pt")}, **fields)


def told(*jobs: TrainingJob) -> dict[str, str]:
    """Return what is wrong, by key below the jobs'."""
    found = list(_dependency_problems(jobs, [each.name for each in jobs], KEY))
    assert len({problem.key for problem in found}) == len(found), found
    return {problem.key.removeprefix(f"{KEY}."): problem.text for problem in found}


def test_a_job_needs_those_that_it_names_and_those_whose_files_it_takes() -> None:
    assert prerequisites(taking("c", "a", **OUTPUTS)) == ("a",)
    assert prerequisites(taking("c", "a", depends_on=("b", "a"))) == ("b", "a")


def test_what_can_be_is_no_problem() -> None:
    assert told(job("a", **OUTPUTS), job("b", "a"), taking("c", "a"), job("d", "b", "c")) == {}


def test_an_unknown_dependency_suggests_a_similar_job() -> None:
    found = told(job("train"), job("evaluate", "train", "trian"), taking("x", "treain"))
    text = 'there is no job "{}" in this stack; did you mean "train"? Allowed: {}'
    assert found == {
        "evaluate.dependsOn[1]": text.format("trian", "train, x"),
        "x.inputs.model.job": text.format("treain", "evaluate, train"),
    }


def test_an_entry_of_the_catalogue_has_to_be_declared_in_the_stack() -> None:
    found = told(job("evaluate", "mnist-gloo"))
    assert found.keys() == {"evaluate.dependsOn[0]"}
    assert "is in the catalogue, but not in this stack" in found["evaluate.dependsOn[0]"]
    assert "`mnist-gloo: {}`" in found["evaluate.dependsOn[0]"]


def test_a_job_cannot_wait_for_itself() -> None:
    found = told(taking("a", "a", **OUTPUTS), job("b", "b"))
    assert found.keys() == {"a.inputs.model.job", "b.dependsOn[0]"}
    assert all("is the job itself" in text for text in found.values())


def test_the_whole_of_a_cycle_is_named() -> None:
    [(key, text)] = told(job("a", "c"), job("b", "a"), job("c", "b"), job("f", "a")).items()
    around = {"a": "a needs c needs b needs a", "c": "c needs b needs a needs c"}
    around["b"] = "b needs a needs c needs b"
    assert f"dependency cycle: {around[key]};" in text


def test_where_a_stack_keeps_no_files_an_input_is_of_a_job_with_outputs() -> None:
    assert told(job("a"), taking("b", "a")) == {}
    jobs = [job("a"), taking("b", "a"), job("c", **OUTPUTS), taking("d", "c")]
    (found,) = lost_inputs(jobs, KEY)
    assert found.key == f"{KEY}.b.inputs.model.job"
    assert '"a" has no `outputs`' in found.text


def test_each_starts_after_those_that_it_needs_otherwise_in_their_order() -> None:
    jobs = [job("e", "d"), job("a"), job("d", "b"), job("b"), job("c")]
    assert [each.name for each in Schedule(jobs, None).ordered] == ["a", "b", "d", "e", "c"]


def test_jobs_whose_images_are_built_let_the_others_go_first() -> None:
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
        # Nor those that have a result from before.
        (("Succeeded", "Succeeded", "Succeeded"), "bc", {**_REFUSED, **_SKIPPED}),
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
