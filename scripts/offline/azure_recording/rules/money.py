"""Budgets: when somebody is told that money has been spent."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from scripts.offline.azure_recording.rules.rule import Inputs, Rule, within
from scripts.offline.azure_recording.shapes import Finding

_BUDGETS = ("consumption:Budget", "costmanagement:Budget")
_SOURCE = "https://learn.microsoft.com/rest/api/consumption/budgets/create-or-update"


def _budget_time(inputs: Inputs) -> Iterator[Finding]:
    start, end = (_date(within(inputs, "timePeriod", key)) for key in ("startDate", "endDate"))
    if start is not None and start.day != 1:
        yield Finding("timePeriod.startDate", f"{start:%Y-%m-%d} is not the first of a month")
    if start is not None and end is not None and end <= start:
        yield Finding("timePeriod.endDate", f"{end:%Y-%m-%d} is not after the start")


def _budget_amount(inputs: Inputs) -> Iterator[Finding]:
    amount = inputs.get("amount")
    if isinstance(amount, int | float) and amount <= 0:
        yield Finding("amount", f"{amount} is not allowed; it takes more than 0")


def _notifications(inputs: Inputs) -> Iterator[Finding]:
    notifications = inputs.get("notifications")
    if not isinstance(notifications, dict):
        return
    if len(notifications) > 5:
        yield Finding("notifications", f"has {len(notifications)}; five are allowed")
    for name, each in notifications.items():
        threshold = within(each, "threshold")
        if isinstance(threshold, int | float) and not 0 <= threshold <= 1000:
            yield Finding(
                f"notifications.{name}.threshold",
                f"{threshold} is not allowed; it is percent, 0 to 1000",
            )
        if not within(each, "contactEmails") and not within(each, "contactGroups"):
            yield Finding(f"notifications.{name}.contactEmails", "is empty; nobody would be told")


def _date(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


RULES = tuple(
    Rule(name, _BUDGETS, _SOURCE, broken)
    for name, broken in (
        ("budget-time", _budget_time),
        ("budget-amount", _budget_amount),
        ("budget-notification", _notifications),
    )
)
