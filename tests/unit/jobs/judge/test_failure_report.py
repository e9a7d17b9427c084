"""A run that did not succeed tells why, and what to do."""

from typing import Any

from jobs.judge import failure_report
from jobs.judge.failure_report import Evidence
from jobs.judge.first_failure import Failure
from jobs.judge.replica import Replica
from jobs.result import End, RunResult, explain
from jobs.topology import Topology
from tests.unit.jobs_objects import ended, pod, warning


def failed(state: dict[str, Any], rank: int = 1) -> Failure:
    seen = Replica(pod(rank, state=state), Topology(replicas=2))
    return Failure(seen, seen.exits[-1])


def told(end: End, cause: Failure | None = None, log: list[str] | None = None) -> str:
    details = failure_report.details(
        end, cause, Evidence(log or [], [warning("Back-off restarting")])
    )
    return explain("mine", RunResult(state=end.state, reason=end.reason, failure=details))


def test_the_whole_story_of_a_rank_that_failed() -> None:
    program_said = {"rank": 1, "error": "ValueError: bad shape", "traceback": "..."}
    first = failed(ended(3, program_said))
    log = [f"line {number}" for number in range(40)]
    text = told(End("Failed", str(first)), first, log=log)
    assert (
        text.splitlines()[0] == "job mine ended Failed: rank 1 (mine-worker-0) exited with code 3"
    )
    assert "its error: ValueError: bad shape" in text
    assert "the end of rank 1's log:" in text
    assert "line 39" in text
    assert "line 10\n" in text
    assert "line 9\n" not in text
    assert "Pod mine-master-0: Failed: Back-off restarting" in text
    assert "then run `make up` again" in text


def test_out_of_memory_is_named_with_the_limit_and_what_to_raise() -> None:
    first = failed(ended(137, reason="OOMKilled"))
    text = told(End("Failed", str(first)), first)
    assert "out of memory" in text
    assert "its memory limit: 1Gi" in text
    assert "raise the job's `memory`" in text


def test_a_command_that_is_not_there_is_told_in_the_runtimes_words() -> None:
    first = failed(ended(128, 'exec: "nope": executable file not found', reason="StartError"))
    text = told(End("Failed", str(first)), first)
    assert 'exec: "nope"' in text
    assert "`command`" in text


def test_a_replica_that_was_started_again_shows_both_its_logs() -> None:
    first = failed(ended(3))
    end = End("Failed", str(first))
    told = failure_report.details(end, first, Evidence(["again"], [], before=["the first time"]))
    text = explain("mine", RunResult(state="Failed", failure=told))
    assert text.index("    the first time") < text.index("    again")
    assert "before it was restarted" in text


def test_a_log_that_is_the_same_after_a_restart_is_shown_once() -> None:
    first = failed(ended(3))
    told = failure_report.details(
        End("Failed", str(first)), first, Evidence(["again"], [], before=["again"])
    )
    text = explain("mine", RunResult(state="Failed", failure=told))
    assert text.count("    again") == 1
    assert "log, the same as before it was restarted:" in text


def test_an_init_container_that_failed_is_named_with_what_it_said() -> None:
    failed_init = Replica(
        pod(1, init=ended(1, {"error": "input model: it is gone"})), Topology(replicas=2)
    ).failed_init
    evidence = Evidence(["its last line"], [], failed_init=failed_init)
    told = failure_report.details(End("CannotStart", "it fails again and again"), None, evidence)
    text = explain("mine", RunResult(state="CannotStart", failure=told))
    assert told.pod == "mine-worker-0"
    assert "its error: input model: it is gone" in text
    assert "the end of container tcp-wait's log:\n    its last line" in text


def test_an_init_container_that_was_killed_for_its_memory_gets_advice_for_that() -> None:
    killed = pod(0, init=ended(137, reason="OOMKilled"))
    evidence = Evidence([], [], failed_init=Replica(killed, Topology(replicas=2)).failed_init)
    told = failure_report.details(End("CannotStart", "it was killed"), None, evidence)
    assert told.out_of_memory
    assert "raise the job's `memory`" in str(told.advice)


def test_what_the_cluster_did_is_told_and_that_a_retry_may_cure_it() -> None:
    first = failed(ended(143))
    told = failure_report.details(
        End("Failed", str(first)), first, Evidence([], []), "pod mine-worker-0 was evicted"
    )
    text = explain("mine", RunResult(state="Failed", failure=told))
    assert "pod mine-worker-0 was evicted" in text
    assert "`retries: 2`" in text


def test_without_a_failed_rank_there_is_still_a_story() -> None:
    text = told(End("TimedOut", "not done after 5 s", "raise it"), log=["waiting"])
    assert "job mine ended TimedOut: not done after 5 s" in text
    assert "the end of rank 0's log:" in text
    assert "raise it" in text


def test_a_result_without_details_is_explained_too() -> None:
    text = explain("mine", RunResult(state="CannotStart", reason="refused: no such CRD"))
    assert text == "job mine ended CannotStart: refused: no such CRD"


def test_the_end_of_a_log_as_termination_message_is_no_error_of_the_program() -> None:
    assert failed(ended(1, "last line of the log")).exit.error is None


def test_warnings_are_told_once_and_in_order() -> None:
    later, earlier = warning("b", "2026-01-01T00:00:02Z"), warning("a", "2026-01-01T00:00:01Z")
    normal = {**warning("c"), "type": "Normal"}
    repeated = warning("Error pod mine-master-0 container pytorch waiting message: b")
    assert failure_report.warnings([later, earlier, earlier, normal, repeated]) == [
        "Pod mine-master-0: Failed: a",
        "Pod mine-master-0: Failed: b",
    ]
