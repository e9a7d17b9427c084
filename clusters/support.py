"""End-of-support dates for Kubernetes minor versions, from support.yaml."""

from datetime import date, datetime, timedelta
from pathlib import Path

import pulumi

from core.context import show_in_summary
from core.manifests import read
from core.toolchain import numbers

_ENDS: dict[str, date] = read(Path(__file__).with_suffix(".yaml"))
_NEAR = timedelta(days=60)


def end(version: str) -> date | None:
    """Return the last day on which a Kubernetes version is supported, or None if unknown."""
    return _ENDS.get(".".join(map(str, numbers(version)[:2])))


def warning(version: str, today: date | None = None) -> str | None:
    """Return a warning if support for a version has ended or ends within 60 days, or else None."""
    last, now = end(version), today or datetime.now().astimezone().date()
    if last is None or now < last - _NEAR:
        return None
    verb = "ended" if last < now else "ends"
    return f"support for Kubernetes {version} {verb} on {last} (https://kubernetes.io/releases/)"


def announce(version: str | None) -> None:
    """Warn if a cluster's Kubernetes version, if known, is or soon will be out of support."""
    if version is not None and (text := warning(version)) is not None:
        text += "; plan an upgrade, unless the cluster's provider supports the version for longer"
        show_in_summary(text, pulumi.log.warn)
