"""Why a request fails. The text of each is what `pulumi up` shows."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

SDK_VERSION = version("pulumi_kubernetes")


class Unserved(Exception):
    """Something that only the real plugin does.

    Args:
        what: What was requested, by its own name.
        instead: What to do without the real plugin.
    """

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(
            "the stand-in for pulumi-kubernetes' plugin (which could not be downloaded) does not "
            f"serve {what}; {instead}, or install the real plugin pulumi-resource-kubernetes "
            f"{SDK_VERSION} on PATH, which always wins"
        )


class Unreachable(Exception):
    """The API server did not answer; whether it still exists is not known."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"configured Kubernetes cluster is unreachable: {problem}")


class LostCluster(Exception):
    """The cluster can't be reached, so whether the object still exists is not known."""

    def __init__(self, error: Unreachable) -> None:
        super().__init__(
            f"{error}. If the cluster was deleted, run the operation again with "
            "PULUMI_K8S_DELETE_UNREACHABLE=true to drop its objects from the state"
        )


class Refusal(Exception):
    """The API server answered, and refused.

    Args:
        status: The HTTP status.
        message: The server's own text.
        causes: The fields that it named, each with `field`, `reason` and `message`.
    """

    def __init__(self, status: int, message: str, causes: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.causes = causes

    @property
    def is_immutable(self) -> bool:
        """Whether a field was to be changed that can't be changed."""
        return self.status == 422 and "immutable" in self.message

    @property
    def is_missing_namespace(self) -> bool:
        """Whether the object's namespace does not exist."""
        return self.status == 404 and "namespaces" in self.message


class AlreadyExists(Exception):
    """An object of this name exists, and nothing shows that this stack made it."""

    def __init__(self, what: object, managers: Sequence[str]) -> None:
        super().__init__(
            f"{what} already exists, and this stack did not make it (its fields are managed by "
            f"{', '.join(managers) or 'no one'}). Delete it, or take it over by setting "
            "PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true and running the operation again"
        )


class Conflict(Exception):
    """Others manage fields that this resource sets to another value."""

    def __init__(self, what: object, conflicts: Sequence[tuple[str, str]]) -> None:
        fields = "; ".join(f"{field} is managed by {manager!r}" for field, manager in conflicts)
        super().__init__(
            f"{what}: {fields}. To take the fields over, set PULUMI_K8S_ENABLE_PATCH_FORCE=true "
            "and run the operation again; else change them back with the tool that manages them"
        )


class StillExists(Exception):
    """An object is still being deleted."""


class NotReady(Exception):
    """The object was made, but did not become ready; the state keeps it, and `up` tries again.

    Args:
        message: What was waited for, and how it ended.
        conditions: Those of the object.
        live: The object as it was last seen.
    """

    def __init__(self, message: str, conditions: Sequence[str], live: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.reasons = (message, *conditions)
        self.live = live
