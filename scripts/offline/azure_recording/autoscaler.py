"""The cluster autoscaler of the recorded pools: a thread of the plugin while it runs.

It does what the real one tells of itself: a pod that finds no node triggers a scale-up of a pool
whose nodes it would fit on, which its events say; a node that no pod needs is given back.
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
"""

import datetime as dt
import fcntl
import threading
from collections.abc import Sequence
from typing import Any

from kubernetes import client
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from scripts.offline.azure_recording.nodes import asked, core, scale
from scripts.offline.azure_recording.pools import Pool, pools
from scripts.offline.azure_recording.recording import Recording

_PAUSE = 1.0  # seconds between two looks
_IDLE = 5.0  # seconds after which a node that no pod needs is given back
_LIMIT = 20  # seconds for a request
_SOURCE = "cluster-autoscaler"


class Autoscaler(threading.Thread):
    """Looks until the process ends."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(name=_SOURCE, daemon=True)
        self._recording = recording
        self._idle: dict[str, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._ended = threading.Event()

    def run(self) -> None:
        with (self._recording.directory / "autoscaler.lock").open("w") as lock:
            # A stack has a plugin for each of its providers, and a cluster one autoscaler.
            fcntl.flock(lock, fcntl.LOCK_EX)
            while not self._ended.wait(_PAUSE):
                try:
                    self._look()
                except (ApiException, HTTPError, ValueError) as error:
                    # Such as the cluster's being busy; what went wrong is in the recording.
                    self._recording.note("autoscaler", error=str(error))

    def stop(self) -> None:
        """End it."""
        self._ended.set()

    def _look(self) -> None:
        growing = [pool for pool in pools(self._recording) if pool.inputs.get("enableAutoScaling")]
        if not growing:
            return
        api = core(self._recording)
        found = api.list_pod_for_all_namespaces(_request_timeout=_LIMIT).items
        wanting = [
            pod for pod in found if asked(pod) and pod.status.phase in {"Pending", "Running"}
        ]
        for pool in growing:
            theirs = [pod for pod in wanting if fits(pod, pool)]
            needed = -(-sum(map(asked, theirs)) // pool.per_node)
            waiting = [pod for pod in theirs if _is_unschedulable(pod)]
            self._decide(api, pool, needed, waiting)

    def _decide(self, api: Any, pool: Pool, needed: int, waiting: Sequence[Any]) -> None:
        least, most = pool.bounds
        wished = min(max(needed, least), most)
        if waiting and wished > pool.count:
            change = f"{pool.name} {pool.count}->{wished} (max: {most})"
            for pod in waiting:
                self._tell(api, pod, "TriggeredScaleUp", f"pod triggered scale-up: [{{{change}}}]")
            scale(self._recording, pool, wished)
        elif waiting and needed > most:
            for pod in waiting:
                text = "pod didn't trigger scale-up: 1 max node group size reached"
                self._tell(api, pod, "NotTriggerScaleUp", text)
        elif wished < pool.count and not needed:
            self._give_back(pool, wished)
            return
        self._idle.pop(pool.name, None)

    def _give_back(self, pool: Pool, wished: int) -> None:
        waited = self._idle.get(pool.name, 0.0)
        if waited >= _IDLE:
            scale(self._recording, pool, wished)
            self._idle.pop(pool.name, None)
        else:
            self._idle[pool.name] = waited + _PAUSE

    def _tell(self, api: Any, pod: Any, reason: str, message: str) -> None:
        if (pod.metadata.uid, reason) in self._told:
            return
        self._told.add((pod.metadata.uid, reason))
        now = dt.datetime.now(dt.UTC)
        event = client.CoreV1Event(
            metadata=client.V1ObjectMeta(
                generate_name=f"{pod.metadata.name}.", namespace=pod.metadata.namespace
            ),
            involved_object=client.V1ObjectReference(
                api_version="v1",
                kind="Pod",
                name=pod.metadata.name,
                namespace=pod.metadata.namespace,
                uid=pod.metadata.uid,
            ),
            reason=reason,
            message=message,
            type="Normal",
            source=client.V1EventSource(component=_SOURCE),
            first_timestamp=now,
            last_timestamp=now,
            count=1,
        )
        api.create_namespaced_event(pod.metadata.namespace, event, _request_timeout=_LIMIT)


def fits(pod: Any, pool: Pool) -> bool:
    """Tell whether a pod would be scheduled on a node of the pool's."""
    wanted = pod.spec.node_selector or {}
    if any(pool.labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_tolerates(pod, taint) for taint in pool.taints)


def _tolerates(pod: Any, taint: dict[str, str]) -> bool:
    for each in pod.spec.tolerations or ():
        same_key = each.key in {None, taint["key"]}
        same_value = each.operator == "Exists" or (each.value or "") == taint["value"]
        if same_key and same_value and each.effect in {None, taint["effect"]}:
            return True
    return taint["effect"] == "PreferNoSchedule"


def _is_unschedulable(pod: Any) -> bool:
    return any(
        each.type == "PodScheduled" and each.reason == "Unschedulable"
        for each in pod.status.conditions or ()
    )
