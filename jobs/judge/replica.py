"""What the pod of a replica shows of it. Pure: pods are the API server's JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from clusters import late_roles
from core.manifests import condition
from jobs.judge.exits import Exit, exit_of, moment, short_id
from jobs.spec.names import CONTAINER, INPUTS_CONTAINER
from jobs.spec.replicas import GPU
from jobs.topology import Topology

TYPE_LABEL = "training.kubeflow.org/replica-type"
_INDEX_LABEL = "training.kubeflow.org/replica-index"

# https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/images/types.go and
# .../pkg/kubelet/kuberuntime/kuberuntime_container.go
_CANNOT_START = frozenset({
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
    "ImageInspectError", "CreateContainerConfigError", "CreateContainerError",
})  # fmt: skip
_CRASH_LOOP = "CrashLoopBackOff"


@dataclass(frozen=True)
class Replica:
    """One replica as its pod shows it."""

    pod: Mapping[str, Any]
    topology: Topology

    @property
    def number(self) -> int:
        """Its place in the job: the Master comes first, if it has one."""
        labels = self.pod["metadata"]["labels"]
        index = int(labels[_INDEX_LABEL])
        return index + 1 if labels[TYPE_LABEL] == "worker" and self.topology.has_master else index

    @property
    def ranks(self) -> str:
        """Which ranks run in it, in words."""
        return self.topology.ranks(self.number)

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    def __str__(self) -> str:
        """Name it by its ranks and its pod."""
        return f"{self.ranks} ({self.name})"

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return str(self.pod["metadata"]["uid"])

    @cached_property
    def _status(self) -> Mapping[str, Any]:
        return self.pod.get("status") or {}

    @cached_property
    def _container(self) -> Mapping[str, Any]:
        return self._status_of(CONTAINER)

    def container_id(self, name: str = CONTAINER) -> str:
        """Return the id of a container's latest start; empty before the first one."""
        return short_id(self._status_of(name))

    @property
    def evicted(self) -> str | None:
        """The node's reason for evicting it; None when it did not."""
        if self._status.get("reason") != "Evicted":
            return None
        return str(self._status.get("message", "")).strip(" .") or "no reason given"

    @property
    def image(self) -> str:
        """What its container was made of, by digest; empty until that is known."""
        return str(self._container.get("imageID", ""))

    @property
    def running(self) -> bool:
        """Whether its program runs."""
        return "running" in self._container.get("state", {})

    @property
    def running_since(self) -> str:
        """When its container began, as the API server reports it; empty where it does not run."""
        return str(self._container.get("state", {}).get("running", {}).get("startedAt", ""))

    @property
    def has_failed(self) -> bool:
        """Whether the pod is over and failed: no node starts anything in it again."""
        return bool(self._status.get("phase") == "Failed")

    @property
    def is_deleted(self) -> bool:
        """Whether the pod is being deleted."""
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def active(self) -> bool:
        """Whether its program runs, or is going to."""
        if self.has_failed or self._status.get("phase") == "Succeeded":
            return False
        # The phase of the pod follows the end of its container by a moment.
        if self.ended is None:
            return True
        return self.ended.code != 0 and self.pod["spec"].get("restartPolicy") != "Never"

    @property
    def restarts(self) -> int:
        """How often its program was started again."""
        return int(self._container.get("restartCount", 0))

    @property
    def exits(self) -> list[Exit]:
        """How its program ended, the last time and the time before, oldest first."""
        states = (self._container.get("lastState", {}), self._container.get("state", {}))
        return [exit_of(state["terminated"]) for state in states if "terminated" in state]

    @property
    def ended(self) -> Exit | None:
        """How its program ended, None while it is going to be, or is, running."""
        terminated = self._container.get("state", {}).get("terminated")
        return None if terminated is None else exit_of(terminated)

    @property
    def started(self) -> bool:
        """Whether its program has ever run."""
        return self.running or bool(self.exits)

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        containers = self.pod["spec"].get("containers") or []
        limits = [each.get("resources", {}).get("limits") or {} for each in containers]
        return sum(int(each.get(GPU, 0)) for each in limits)

    @property
    def memory_limit(self) -> str | None:
        """The memory limit of its container; None without one."""
        container = next(
            each for each in self.pod["spec"]["containers"] if each["name"] == CONTAINER
        )
        limit: str | None = container.get("resources", {}).get("limits", {}).get("memory")
        return limit

    @property
    def unschedulable(self) -> str | None:
        """The scheduler's reason while no node fits it."""
        scheduled = condition(self.pod, "PodScheduled")
        if scheduled.get("status") != "False":
            return None
        return str(scheduled.get("message", scheduled.get("reason", "")))

    @property
    def cannot_start(self) -> str | None:
        """Why a container of it, its init container included, is not going to start."""
        return next(filter(None, map(self._blocked, self._statuses)), None)

    @property
    def is_refused_login(self) -> bool:
        """Whether its node may pull an image once a new role applies; other images are in order."""
        found = [each for each in map(self._blocked, self._statuses) if each is not None]
        return bool(found) and all(map(late_roles.may_be, found))

    @property
    def crash_loop(self) -> str | None:
        """The name of a container that keeps failing, or an init container that failed twice."""
        for status in self._statuses:
            if status.get("state", {}).get("waiting", {}).get("reason") == _CRASH_LOOP:
                return str(status["name"])
        for status in self._inits:
            # It is tried again at once, and then the kubelet takes 10 s to speak of a loop.
            code = status.get("state", {}).get("terminated", {}).get("exitCode", 0)
            if code != 0 and status["restartCount"] > 0:
                return str(status["name"])
        return None

    @property
    def failed_init(self) -> tuple[str, Exit] | None:
        """The init container that failed last, and how; None once the program has begun."""
        if self.started:
            return None
        for status in self._inits:
            states = (status.get("state", {}), status.get("lastState", {}))
            ended = next((each["terminated"] for each in states if "terminated" in each), None)
            if ended is not None and ended["exitCode"] != 0:
                return str(status["name"]), exit_of(ended)
        return None

    def was_deleted(self, at: datetime) -> bool:
        """Return whether its pod was being deleted at a time: in an earlier second."""
        metadata = self.pod["metadata"]
        if "deletionTimestamp" not in metadata:
            return False
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        return moment(metadata["deletionTimestamp"]) - grace < at

    def has_done(self, init_container: str) -> bool:
        """Return whether an init container has succeeded."""
        state = self._status_of(init_container).get("state", {})
        return bool(state.get("terminated", {}).get("exitCode") == 0)

    @property
    def stage(self) -> str:
        """Where it is on its way, in a few words."""
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
        return "starting" if "nodeName" in self.pod.get("spec", {}) else "pending"

    @staticmethod
    def _blocked(status: Mapping[str, Any]) -> str | None:
        """Return why a container is not going to start, by its status."""
        waiting = status.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in _CANNOT_START:
            return None
        image = f"image {status['image']}: " if "mage" in waiting["reason"] else ""
        return f"{image}{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")

    def _status_of(self, container: str) -> Mapping[str, Any]:
        """Return the status of a container of the pod; empty without it."""
        return next((each for each in self._statuses if each["name"] == container), {})

    @property
    def _inits(self) -> list[Mapping[str, Any]]:
        return self._status.get("initContainerStatuses") or []

    @property
    def _statuses(self) -> list[Mapping[str, Any]]:
        return [*self._inits, *(self._status.get("containerStatuses") or [])]


def is_replica(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is one that the operator made for a job."""
    return TYPE_LABEL in (pod["metadata"].get("labels") or {})


def is_of(pod: Mapping[str, Any], uid: str) -> bool:
    """Return whether a pod belongs to the PyTorchJob of that uid, and to no other of its name."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == uid for owner in owners)


def replicas(pods: Iterable[Mapping[str, Any]], topology: Topology) -> dict[int, Replica]:
    """Return each replica as its latest pod shows it, by number; other pods are left out."""
    latest: dict[int, Replica] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
        if is_replica(pod):
            replica = Replica(pod, topology)
            latest[replica.number] = replica
    return dict(sorted(latest.items()))
