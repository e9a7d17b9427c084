"""Whose log is shown of a run that did not succeed, and where it is found, without a cluster."""

from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi
from jobs.judge.run_state import RunState
from jobs.watch.log_ends import LogEnds
from tests.unit.jobs_objects import RUNNING, ended, job, pod, waiting


class Kept:
    """The logs that a kubelet still has: of a container's latest start, and of the one before."""

    def __init__(self, latest: str | None, before: str | None) -> None:
        self._latest, self._before = latest, before

    def log(self, pod: str, container: str, *, previous: bool, **_limits: Any) -> str:
        assert (pod, container) == ("mine-master-0", "tcp-wait")
        found = self._before if previous else self._latest
        if found is None:
            raise ApiException(status=400)
        return found


def _last_words(then: dict[str, Any], latest: str | None, before: str | None) -> list[str]:
    tracked = RunState(job("Created"))
    tracked.see_pods([pod(0, init=ended(1, "the message"))])
    retried = pod(0, init={})
    retried["status"]["initContainerStatuses"][0] |= then
    tracked.see_pods([retried])
    return LogEnds(cast("JobApi", Kept(latest, before)), kept=None).relevant(
        tracked, tracked.silent
    )


@pytest.mark.parametrize(
    ("then", "latest", "before"),
    [
        ({"state": waiting("CrashLoopBackOff"), "lastState": ended(1)}, "why", "why"),
        ({"state": ended(1), "lastState": ended(1)}, "why", "why not at first"),
        ({"state": RUNNING, "lastState": ended(1)}, "it begins", "why"),
        ({"state": RUNNING}, "", "why"),
        ({"state": ended(1)}, "why", None),
    ],
    ids=["it waits", "twice", "again", "again, and nothing printed", "the kubelet kept one"],
)
def test_the_log_of_an_init_container_is_found_wherever_its_next_start_left_it(
    then: dict[str, Any], latest: str | None, before: str | None
) -> None:
    assert _last_words(then, latest, before) == ["why"]


def test_without_a_log_the_message_that_an_init_container_left_is_its_last_words() -> None:
    assert _last_words({"state": RUNNING}, latest="", before=None) == ["the message"]


_BACKWARD = "/torch/autograd/graph.py"
_BARRIER = "/torch/distributed/distributed_c10d.py"
_OWN = "/opt/script/train.py"


def _stood(*files: str | None, gpus: bool = False, **failed: Any) -> tuple[list[str], list[str]]:
    """Return who of a run whose ranks stood in these files is named, and whose log is shown."""

    class Dumps:
        def log(self, pod: str, _container: str, **_options: Any) -> str:
            rank = int(pod.rpartition("-")[2]) + ("worker" in pod)
            dump = [
                "Current thread 0x01 (most recent call first):",
                f'  File "{files[rank]}", line 1 in f',
            ]
            return "\n".join([f"step 5 of {rank}", *(dump if files[rank] else [])])

        def pods(self) -> list[dict[str, Any]]:
            return pods

    pods = [pod(rank, state=RUNNING, **failed) for rank in range(len(files))]
    if gpus:
        for each in pods:
            each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    tracked = RunState(job("Running", workers=len(files) - 1))
    tracked.see_pods(pods)
    words = LogEnds(cast("JobApi", Dumps()), kept=None)
    silent = words.silent(tracked)
    return [each.ranks for each in silent], words.relevant(tracked, silent)


def test_of_ranks_that_hang_the_one_that_the_others_wait_for_is_named() -> None:
    assert _stood(_BACKWARD, _OWN) == (["rank 1"], ["step 5 of 1"])
    assert _stood(_OWN, _BARRIER, _BACKWARD) == (["rank 0"], ["step 5 of 0"])


@pytest.mark.parametrize(
    "files", [(_OWN, _OWN), (_OWN, _OWN, _BARRIER), (_BARRIER, _BACKWARD), (_OWN, None)]
)
def test_where_it_could_be_several_or_none_nobody_is_named(files: tuple[str | None, ...]) -> None:
    assert _stood(*files) == ([], ["step 5 of 0"])


def test_on_gpus_and_beside_a_failure_stacks_accuse_nobody() -> None:
    assert _stood(_BACKWARD, _OWN, gpus=True)[0] == []
    assert _stood(_BACKWARD, _OWN, last=ended(1), restarts=1)[0] == []
