"""Times as the API server and ranks report them: RFC 3339."""

from datetime import UTC, datetime

NEVER = datetime.min.replace(tzinfo=UTC)
"""Before anything that happened."""


def moment(text: str) -> datetime:
    """Return a time that was reported; the beginning of time when it is missing."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return NEVER


def seconds_between(first: object, last: object) -> float | None:
    """Return the seconds between two times that were reported; None where one is none."""
    begun, ended = moment(str(first)), moment(str(last))
    if NEVER in (begun, ended) or begun.tzinfo is None or ended.tzinfo is None:
        return None
    return (ended - begun).total_seconds()
