"""Reads what a cloud reports while a pod waits: nodes to come, pulls that are refused. Pure.

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
"""The ConfigMap with its status, which its own events are about."""
NAMESPACE = "kube-system"
_MADE, _NOT_MADE = "TriggeredScaleUp", "NotTriggerScaleUp"
_FAILED = frozenset({"FailedToScaleUpGroup", "ScaleUpTimedOut"})
_FACTS = read(Path(__file__).with_name("cloud_reports.yaml"))


@dataclass(frozen=True)
class Growth:
    """Whether a node is made for a pod that has none, and the autoscaler's own words."""

    coming: bool
    text: str

    def __str__(self) -> str:
        if self.coming:
            return f"a node is being made ({self.text})"
        return f"no node is made for it: {self.text}"


def growth(events: Iterable[Mapping[str, Any]]) -> Growth | None:
    """Return the autoscaler's last report among the events of a job's pods; None without one."""
    about = [event for event in events if event.get("reason") in {_MADE, _NOT_MADE}]
    latest = max(about, key=_when, default=None)
    if latest is None:
        return None
    message = str(latest.get("message", ""))
    return Growth(latest["reason"] == _MADE, message.partition(": ")[2] or message)


def setbacks(status: str | None, events: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Return why groups of nodes do not grow: by the ConfigMap's `status`, and the events of it."""
    found = []
    try:
        document = yaml.safe_load(status or "")
    except yaml.YAMLError:
        document = None  # Before 1.30 it was a text for people.
    groups = document.get("nodeGroups") if isinstance(document, Mapping) else None
    for group in groups or []:
        scale_up = group.get("scaleUp") or {}
        error = scale_up.get("backoffInfo") or {}
        if scale_up.get("status") == "Backoff":
            words = ": ".join(filter(None, (error.get("errorCode"), error.get("errorMessage"))))
            found.append(f"{group.get('name')}: {words or 'in backoff after a failed scale-up'}")
    if failed := [each for each in events if each.get("reason") in _FAILED]:
        found.append(str(max(failed, key=_when).get("message", "")).strip())
    return list(dict.fromkeys(map(explained, found)))


def explained(words: str) -> str:
    """Return the autoscaler's words, and in front of them what is behind them where it is known."""
    causes = (text for text, pattern in _FACTS["causes"].items() if re.search(pattern, words))
    cause = next(causes, None)
    return words if cause is None else f"{cause} ({words})"


def _when(event: Mapping[str, Any]) -> str:
    metadata = event.get("metadata") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), metadata.get("creationTimestamp"))
    return str(next(filter(None, times), ""))


@dataclass(frozen=True)
class RefusedPulls:
    """A cluster's policy for pulls that its registry refuses.

    Args:
        pattern: What a kubelet reports of such a pull, as a regular expression; its `.` stands for
            any character.
        seconds: How long a refusal may last.
        advice: What the user is shown meanwhile.
    """

    pattern: str
    seconds: float
    advice: str

    def may_be_admitted(self, message: str) -> bool:
        """Return whether what a kubelet reports of a pull, or of its pause, is such a refusal."""
        return re.search(self.pattern, message, re.DOTALL) is not None

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> "RefusedPulls | None":
        """Return the policy in the inputs of a resource; None without one."""
        known = inputs.get("refusedPulls")
        return None if known is None else cls(**known)


def as_input(policy: RefusedPulls | None) -> dict[str, Any]:
    """Return a policy as an input of a resource; nothing without one."""
    return {} if policy is None else {"refusedPulls": asdict(policy)}


AZURE_LATE_ROLES = RefusedPulls(**_FACTS["azure_late_roles"])
"""AKS pulls as the identity of its kubelets, whose role Azure may take ten minutes to apply."""
