"""The rank that failed first is named in whatever order the API server reports what happened."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.observe.run_state import RunState
from tests.unit.jobs_objects import ended, job, pod

RESET = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]"
CAUSES = (ended(9), ended(1, "ValueError: of its own"), ended(137, reason="OOMKilled"), ended(139))
Document = dict[str, Any]


@dataclass(frozen=True)
class Story:
    """What the API server shows, in one order, and who failed first in the end."""

    shown: list[Document]
    world: int
    rank: int
    code: int


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """One rank fails, its peers notice up to a minute later, all start again; a few times."""
    world, begun = draw(st.integers(2, 4)), datetime(2026, 1, 1, tzinfo=UTC)
    rank = draw(st.integers(0, world - 1))
    starts = [begun] * world
    lasts: list[Document | None] = [None] * world
    shown: list[list[Document]] = [[] for _ in range(world)]
    code = 0
    for restarts in range(draw(st.integers(1, 3))):
        failed = max(starts) + timedelta(seconds=draw(st.integers(1, 300)))
        for number in range(world):
            late = 0 if number == rank else draw(st.integers(0, 60))
            exit_ = draw(st.sampled_from(CAUSES)) if number == rank else ended(1, RESET)
            end = failed + timedelta(seconds=late)
            terminated = exit_["terminated"] | {
                "startedAt": starts[number].isoformat(),
                "finishedAt": end.isoformat(),
                "containerID": f"containerd://{number}-{restarts}",
            }
            code = terminated["exitCode"] if number == rank else code
            was, now = lasts[number], {"terminated": terminated}
            shown[number] += [
                pod(number, state={"running": {}}, last=was, restarts=restarts),
                pod(number, state=now, last=was, restarts=restarts),
                pod(number, state={"running": {}}, last=now, restarts=restarts + 1),
            ]
            lasts[number] = now
            starts[number] = end + timedelta(seconds=draw(st.integers(0, 2)))
    order = draw(st.permutations([number for number in range(world) for _ in shown[number]]))
    return Story([shown[number].pop(0) for number in order], world, rank, code)


@given(stories())
@settings(max_examples=300, deadline=None)
def test_the_rank_that_failed_first_is_named_in_every_order(story: Story) -> None:
    tracker = RunState(job("Running", workers=story.world - 1))
    for document in story.shown:
        tracker.see_pods([document])
    cause = tracker.cause
    assert cause is not None
    assert (cause.rank, cause.exit.code) == (story.rank, story.code)
