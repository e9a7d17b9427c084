"""Whose log is shown of a run that did not succeed, and where it is found, without a cluster."""

from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi
from jobs.watch.last_words import LastWords
from jobs.watch.tracker import Tracker
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
    tracked = Tracker(job("Created"))
    tracked.see_pods([pod(0, init=ended(1, "the message"))])
    retried = pod(0, init={})
    retried["status"]["initContainerStatuses"][0] |= then
    tracked.see_pods([retried])
    return LastWords(cast("JobApi", Kept(latest, before)), kept=None).matter(tracked)


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
