"""The state of a replica, derived from its pod, which is decoded JSON from the API server."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from core.manifests import condition
from jobs.api.follower import Container
from jobs.api.lines import moment
from jobs.model.names import CONTAINER, GPU, INPUTS_CONTAINER
from jobs.model.pytorchjob import Topology, is_replica, replica_number, run_of
from jobs.observe.exits import SIGNS, Exit, short_id
from jobs.result import End


@dataclass
class Replica:
    """A replica's state; its pod is parsed only once, since the fields are read often."""

    pod: Mapping[str, Any]
    topology: Topology

    def __post_init__(self) -> None:
        metadata = self.pod["metadata"]
        spec, status = self.pod.get("spec") or {}, self.pod.get("status") or {}
        self.name, self.uid = str(metadata["name"]), str(metadata["uid"])
        self.created = str(metadata.get("creationTimestamp"))
        self.number = replica_number(self.pod, self.topology)
        self.ranks = self.topology.ranks(self.number)  # for messages
        self.node: str | None = spec.get("nodeName")
        self.is_deleted = "deletionTimestamp" in metadata
        self.has_failed = status.get("phase") == "Failed"  # none of its containers will start again
        self.evicted: str | None = None  # the node's reason for an eviction
        if status.get("reason") == "Evicted":
            self.evicted = str(status.get("message", "")).strip(" .") or "no reason given"
        scheduled = condition(self.pod, "PodScheduled")
        self.unschedulable: str | None = None  # the scheduler's reason while no node fits it
        if scheduled.get("status") == "False":
            self.unschedulable = str(scheduled.get("message", scheduled.get("reason", "")))
        self._inits: list[Mapping[str, Any]] = status.get("initContainerStatuses") or []
        self._statuses = [*self._inits, *(status.get("containerStatuses") or [])]

        own = self._status_of(CONTAINER)
        state, before = own.get("state", {}), own.get("lastState", {})
        self.container_id = short_id(own)  # of its latest start; empty before the first
        self.image = str(own.get("imageID", ""))  # by digest; empty if unknown
        self.restarts = int(own.get("restartCount", 0))
        self.running = "running" in state
        self.running_since = str(state.get("running", {}).get("startedAt", ""))
        # The program's latest two exits, oldest first.
        self.exits = [Exit(each["terminated"]) for each in (before, state) if "terminated" in each]
        self.ended = self.exits[-1] if "terminated" in state else None
        self.started = self.running or len(self.exits) > 0
        # Whether its program is running or will run. The phase lags behind the container's exit.
        may_restart = spec.get("restartPolicy") != "Never"
        self.active = status.get("phase") not in {"Failed", "Succeeded"} and (
            self.ended is None or (self.ended.code != 0 and may_restart)
        )
        # Whether its program has yet to start for the first time.
        self.to_come = self.active and not self.started and not self.is_deleted
        # Containers, such as a webhook's, that keep the pod running after its program exits.
        is_over = self.ended is not None and not self.active and status.get("phase") == "Running"
        left = self._statuses[len(self._inits) :] if is_over else ()
        self.outlasting = [
            str(each["name"]) for each in left if "terminated" not in each.get("state", {})
        ]

        listed = spec.get("containers") or []
        limits = {each["name"]: each.get("resources", {}).get("limits") or {} for each in listed}
        self.gpus = sum(int(each.get(GPU, 0)) for each in limits.values())
        self.memory_limit: str | None = limits.get(CONTAINER, {}).get("memory")

    def __str__(self) -> str:
        return f"{self.ranks} ({self.name})"

    @property
    def blocked(self) -> list[End]:
        """An outcome for each container in the pod, or init container, that can't start."""
        ends = []
        for status in self._statuses:
            waiting = status.get("state", {}).get("waiting", {})
            if (reason := waiting.get("reason", "")) in SIGNS["cannotStart"]:
                image = f"image {status['image']}: " if "mage" in reason else ""
                told = f"{self}: {image}{reason}: {waiting.get('message', '')}".rstrip(": ")
                ends.append(End("CannotStart", told, SIGNS["cannotStart"][reason]))
        return ends

    @property
    def crash_loop(self) -> str | None:
        """The name of a container that keeps failing, or of an init container that failed twice."""
        for status in self._statuses:
            state = status.get("state", {})
            is_looping = state.get("waiting", {}).get("reason") == "CrashLoopBackOff"
            # The kubelet reports the crash loop of an init container only after 10 s.
            has_failed = state.get("terminated", {}).get("exitCode", 0) != 0
            if is_looping or (has_failed and status in self._inits and status["restartCount"] > 0):
                return str(status["name"])
        return None

    @property
    def failed_init(self) -> tuple[str, Exit] | None:
        """The init container whose last run failed, and its exit; None if the program started."""
        if self.started:
            return None
        for status in self._inits:
            states = (status.get("state", {}), status.get("lastState", {}))
            ended = next((each["terminated"] for each in states if "terminated" in each), None)
            if ended is not None and ended["exitCode"] != 0:
                return str(status["name"]), Exit(ended)
        return None

    def was_deleted(self, at: datetime) -> bool:
        """Return whether the pod's deletion began before `at`, compared in whole seconds."""
        if not self.is_deleted:
            return False
        metadata = self.pod["metadata"]
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        return moment(metadata["deletionTimestamp"]) - grace < at

    def has_done(self, init_container: str) -> bool:
        state = self._status_of(init_container).get("state", {})
        return bool(state.get("terminated", {}).get("exitCode") == 0)

    @property
    def stage(self) -> str:
        if self.ended is not None:
            return "done" if self.ended.code == 0 else "failed"
        if self.running:
            return "running"
        if self.unschedulable is not None:
            return "waiting for a node"
        if self.restarts > 0:
            return "restarting"
        running = [each["name"] for each in self._inits if "running" in each.get("state", {})]
        if running:
            return "fetching its inputs" if INPUTS_CONTAINER in running else "waiting for rank 0"
        return "pending" if self.node is None else "starting"

    def _status_of(self, container: str) -> Mapping[str, Any]:
        """Return the status of a container in the pod; empty if there is none."""
        return next((each for each in self._statuses if each["name"] == container), {})


def containers(
    pods: Iterable[Mapping[str, Any]], topology: Topology, run_id: str | None
) -> list[Container]:
    """Return the containers in those of `pods` that belong to a run, sorted by replica and age."""
    mine = [Replica(pod, topology) for pod in pods if is_replica(pod) and run_of(pod) == run_id]
    mine.sort(key=lambda each: (each.number, each.created))
    return [container for replica in mine for container in starts(replica)]


def starts(replica: Replica) -> list[Container]:
    """Return the containers that ran a replica's program, from its pod's status, oldest first."""
    ended = [end.container_id for end in replica.exits if end.container_id]
    running = [replica.container_id] if replica.running and replica.container_id else []
    ids = list(dict.fromkeys([*ended, *running]))
    return [
        Container(
            replica.number, replica.name, each, ended=each not in running, previous=each != ids[-1]
        )
        for each in ids
    ]


def starts_in(pod: Mapping[str, Any]) -> list[Container]:
    """Return the containers that ran a pod's program, from the pod's status, oldest first."""
    return starts(Replica(pod, Topology(1))) if is_replica(pod) else []
