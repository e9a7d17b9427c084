"""Why a request fails. The text of each is what `pulumi up` shows."""

import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from kubernetes.client.exceptions import ApiException
from pulumi.provider.experimental.property_value import PropertyValue

from core.kube import api_message

SDK_VERSION = version("pulumi_kubernetes")
_MANAGER = re.compile(r'conflict with "([^"]*)"')


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


class Refusal(Exception):
    """The API server answered, and refused; the text is its own."""

    def __init__(self, error: ApiException) -> None:
        super().__init__(api_message(error))
        self.status = error.status
        self._body = error.body

    @property
    def conflicts(self) -> dict[str, str]:
        """Each field in conflict, and who manages it."""
        if self.status != 409:
            return {}
        causes = json.loads(self._body or "{}").get("details", {}).get("causes") or ()
        return {
            cause["field"]: found[1]
            for cause in causes
            if (found := _MANAGER.search(cause["message"])) is not None
        }


class NotReady(Exception):
    """The object was made, but did not become ready; the state keeps it, and `up` tries again.

    Args:
        message: What was waited for, and how it ended.
        conditions: Those of the object.
        live: The object as it was last seen.
    """

    def __init__(self, message: str, conditions: list[str], live: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.reasons = (message, *conditions)
        self.live = live
        self.kept: tuple[str, dict[str, PropertyValue]] = ("", {})
        """The resource's ID and state."""
