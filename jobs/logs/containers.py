"""The containers in which a replica's program ran, each with a log of its own. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jobs.judge.replica import Replica
from jobs.spec.names import CONTAINER


@dataclass(frozen=True)
class Container:
    """One start of a replica's program: a restart is another one, and so is a new pod's.

    Args:
        replica: Its number.
        pod: In which pod.
        id: Without the runtime's name before it.
        ended: Whether it has ended, so that its log is complete.
        previous: Whether another one has followed it in its pod.
    """

    replica: int
    pod: str
    id: str
    ended: bool
    previous: bool


def containers(replica: Replica) -> list[Container]:
    """Return the containers of a replica's pod that Kubernetes still tells of, oldest first."""
    ended = [end.container_id for end in replica.exits if end.container_id]
    running = [replica.container_id] if replica.running and replica.container_id else []
    ids = list(dict.fromkeys([*ended, *running]))
    return [
        Container(
            replica.number,
            replica.name,
            short_id(id_),
            ended=id_ not in running,
            previous=id_ != ids[-1],
        )
        for id_ in ids
    ]


def short_id(container_id: str) -> str:
    """Return a container's id without the runtime's name before it."""
    return container_id.rpartition("://")[2]


def place(pod: Mapping[str, Any], container: Container) -> Literal["latest", "previous", "gone"]:
    """Return where a container is in its pod, which may have been started again meanwhile."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    status = next((each for each in statuses if each["name"] == CONTAINER), None)
    if status is None:
        return "latest"
    ended = (status.get("lastState") or {}).get("terminated") or {}
    if container.id in _ids(status, (status.get("state") or {}).get("terminated") or {}):
        return "latest"
    return "previous" if container.id in _ids(ended) else "gone"


def _ids(*told: Mapping[str, Any]) -> set[str]:
    return {str(each.get("containerID") or "").rpartition("://")[2] for each in told}
