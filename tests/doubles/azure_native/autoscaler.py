"""The cluster autoscaler of the double's pools: a thread of the plugin while it runs.

A pod that is unschedulable triggers a scale-up of a pool whose nodes it would fit on, which its
events report; a node that no pod needs is removed.
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
"""

import datetime as dt
import fcntl
import re
import threading
import time
from collections.abc import Sequence
from typing import Any

import yaml
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from tests.doubles.azure_native.nodes import LIMIT, core, gpus_of, scale
from tests.doubles.azure_native.pools import Pool, pools
from tests.doubles.azure_native.store import Store

_PAUSE = 1.0  # seconds between two looks
_IDLE = 5.0  # seconds after which a node that no pod needs is removed
_SOURCE = "cluster-autoscaler"
_PRIORITIES = "cluster-autoscaler-priority-expander"


class Autoscaler(threading.Thread):
    """Runs until the process ends."""

    def __init__(self, store: Store) -> None:
        super().__init__(name=_SOURCE, daemon=True)
        self._store = store
        self._idle: dict[str, float] = {}
        self._reported: set[str] = set()

    def run(self) -> None:
        with (self._store.directory / "autoscaler.lock").open("w") as lock:
            # A stack has a plugin for each of its providers, and a cluster one autoscaler.
            fcntl.flock(lock, fcntl.LOCK_EX)
            while True:
                time.sleep(_PAUSE)
                try:
                    self.look()
                except (ApiException, HTTPError, ValueError) as error:
                    # Such as a busy API server: the next look tries again.
                    self._store.note("autoscaler", error=str(error))

    def look(self) -> None:
        """Compare what pods request with the nodes that there are, and scale."""
        growing = [pool for pool in pools(self._store) if pool.inputs.get("enableAutoScaling")]
        if not growing:
            return
        api = core(self._store)
        listed = api.list_pod_for_all_namespaces(_request_timeout=LIMIT).items
        active = [
            pod for pod in listed if gpus_of(pod) and pod.status.phase in {"Pending", "Running"}
        ]
        served: set[str] = set()
        for pool in self._in_order(api, growing):
            fitting = [pod for pod in active if fits(pod, pool) and pod.metadata.uid not in served]
            if pool.is_spot and self._store.without_spot.exists():
                fitting = []
            served |= {pod.metadata.uid for pod in fitting}
            needed = -(-sum(map(gpus_of, fitting)) // pool.gpus_per_node)
            self._decide(api, pool, needed, [pod for pod in fitting if _is_unschedulable(pod)])

    def _in_order(self, api: Any, growing: Sequence[Pool]) -> Sequence[Pool]:
        """Return the pools that may grow, the preferred one first, as the expander has it.

        https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/priority.go
        """
        profiles = [record.inputs.get("autoScalerProfile") or {} for record in self._store.all()]
        if not any(profile.get("expander") == "priority" for profile in profiles):
            return growing
        try:
            found = api.read_namespaced_config_map(
                _PRIORITIES, "kube-system", _request_timeout=LIMIT
            )
        except ApiException as error:
            if error.status != 404:
                raise
            return []
        patterns = yaml.safe_load(found.data["priorities"])

        def priority(pool: Pool) -> int:
            name = f"aks-{pool.name}-12345678-vmss"
            known = [each for each, ones in patterns.items() for it in ones if re.search(it, name)]
            return max(known, default=0)

        return sorted(filter(priority, growing), key=priority, reverse=True)

    def _decide(self, api: Any, pool: Pool, needed: int, waiting: Sequence[Any]) -> None:
        fewest, most = pool.bounds
        target = min(max(needed, fewest), most)
        if waiting and target > pool.count:
            change = f"{pool.name} {pool.count}->{target} (max: {most})"
            self._report(api, waiting, f"pod triggered scale-up: [{{{change}}}]")
            scale(self._store, pool, target)
        elif target < pool.count and not needed:
            waited = self._idle.get(pool.name, 0.0)
            if waited < _IDLE:
                self._idle[pool.name] = waited + _PAUSE
                return
            scale(self._store, pool, target)
        self._idle.pop(pool.name, None)

    def _report(self, api: Any, pods: Sequence[Any], message: str) -> None:
        """Report to each pod as an event, once."""
        now = dt.datetime.now(dt.UTC).isoformat()
        for pod in (each.metadata for each in pods if each.metadata.uid not in self._reported):
            self._reported.add(pod.uid)
            place = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
            event = {
                "metadata": {"generateName": f"{pod.name}.", "namespace": pod.namespace},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", **place},
                "reason": "TriggeredScaleUp",
                "message": message,
                "type": "Normal",
                "source": {"component": _SOURCE},
                **dict.fromkeys(("firstTimestamp", "lastTimestamp"), now),
                "count": 1,
            }
            api.create_namespaced_event(pod.namespace, event, _request_timeout=LIMIT)


def fits(pod: Any, pool: Pool) -> bool:
    """Return whether a pod would be scheduled on a node of the pool."""
    selector = pod.spec.node_selector or {}
    if any(pool.labels.get(key) != value for key, value in selector.items()):
        return False
    return all(_tolerates(pod, taint) for taint in pool.taints)


def _tolerates(pod: Any, taint: dict[str, str]) -> bool:
    return any(
        each.key in {None, taint["key"]}
        and (each.operator == "Exists" or (each.value or "") == taint["value"])
        and each.effect in {None, taint["effect"]}
        for each in pod.spec.tolerations or ()
    )


def _is_unschedulable(pod: Any) -> bool:
    return any(
        each.type == "PodScheduled" and each.reason == "Unschedulable"
        for each in pod.status.conditions or ()
    )
