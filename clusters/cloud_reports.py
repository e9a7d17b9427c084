"""Interpret a cloud's reports about a pending pod: node scale-ups and refused image pulls. Pure.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-events-are-emitted-by-ca
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from core.manifests import read

STATUS = "cluster-autoscaler-status"
"""The ConfigMap that contains the autoscaler's status, and to which its events refer."""
NAMESPACE = "kube-system"
# Whether a node is being added, by an event's reason; Karpenter's is Nominated.
_COMING = {"TriggeredScaleUp": True, "Nominated": True, "NotTriggerScaleUp": False}
_FAILED = frozenset({"FailedToScaleUpGroup", "ScaleUpTimedOut"})
_FACTS = read(Path(__file__).with_name("cloud_reports.yaml"))


@dataclass(frozen=True)
class Growth:
    """The autoscaler's message on a pending pod; `coming` is true if a node is being added."""

    coming: bool
    text: str

    def __str__(self) -> str:
        if self.coming:
            return f"a node is being created ({self.text})"
        return f"no node is being created for it: {self.text}"


def growth(events: Iterable[Mapping[str, Any]]) -> Growth | None:
    """Return the autoscaler's latest decision in the events for a job's pods, or None."""
    about = [event for event in events if event.get("reason") in _COMING]
    latest = max(about, key=_when, default=None)
    if latest is None:
        return None
    message = str(latest.get("message", ""))
    return Growth(_COMING[latest["reason"]], message.partition(": ")[2] or message)


def setbacks(status: str | None, events: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Return why node groups are not growing, from the ConfigMap `STATUS` and its events."""
    texts = []
    try:
        document = yaml.safe_load(status or "")
    except yaml.YAMLError:
        document = None  # Before 1.30 the status was plain text.
    groups = document.get("nodeGroups") if isinstance(document, Mapping) else None
    for group in groups or []:
        scale_up = group.get("scaleUp") or {}
        error = scale_up.get("backoffInfo") or {}
        if scale_up.get("status") == "Backoff":
            words = ": ".join(filter(None, (error.get("errorCode"), error.get("errorMessage"))))
            texts.append(f"{group.get('name')}: {words or 'in backoff after a failed scale-up'}")
    if failed := [each for each in events if each.get("reason") in _FAILED]:
        texts.append(str(max(failed, key=_when).get("message", "")).strip())
    return list(dict.fromkeys(map(explained, texts)))


def explained(words: str) -> str:
    """Return the autoscaler's message, preceded by its cause if known."""
    causes = (text for text, pattern in _FACTS["causes"].items() if re.search(pattern, words))
    cause = next(causes, None)
    return words if cause is None else f"{cause} ({words})"


def _when(event: Mapping[str, Any]) -> str:
    metadata = event.get("metadata") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), metadata.get("creationTimestamp"))
    return str(next(filter(None, times), ""))


@dataclass(frozen=True)
class RefusedPulls:
    """The policy for image pulls that a registry refuses at first but may soon authorize.

    Args:
        pattern: A regular expression for the kubelet's message about the pull; `.` also matches
            newlines.
        seconds: How long to keep waiting for a refused pull.
        advice: The message shown to the user during that time.
    """

    pattern: str
    seconds: float
    advice: str

    def may_be_admitted(self, message: str) -> bool:
        """Return whether a pull with this message from the kubelet may be authorized later."""
        return re.search(self.pattern, message, re.DOTALL) is not None

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "RefusedPulls | None":
        """Return the policy in a resource's inputs, or None if there is none."""
        policy = inputs.get("refusedPulls")
        return None if policy is None else cls(**policy)


def as_input(policy: RefusedPulls | None) -> dict[str, Any]:
    """Return a policy as a resource input, or an empty dict if there is no policy."""
    return {} if policy is None else {"refusedPulls": asdict(policy)}


AZURE_LATE_ROLES = RefusedPulls(**_FACTS["azure_late_roles"])
"""The policy for AKS, where the nodes' role to pull images may need ten minutes to work."""
