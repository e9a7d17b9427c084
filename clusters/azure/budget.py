"""Who is told when more is spent than was meant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pulumi_azure_native import consumption

from clusters.azure import names

if TYPE_CHECKING:
    from clusters.azure.place import Place
    from clusters.azure.services import Budget

_ALERTS = (("Actual", 80), ("Actual", 100), ("Forecasted", 100))
"""Of what is spent, or will be by the end of the month, in percent."""


def budget(place: Place, wanted: Budget) -> consumption.Budget:
    """Declare a monthly budget over everything that the stack pays for.

    It counts by resource groups, since the nodes, most of the cost, are in a group that AKS makes;
    so it belongs to the subscription.

    https://learn.microsoft.com/azure/templates/microsoft.consumption/budgets
    """
    settings = place.settings
    groups = [names.resource_group(settings), names.node_group(settings)]
    return consumption.Budget(
        settings.name,
        budget_name=f"slipway-{settings.name}",
        scope=f"/subscriptions/{settings.subscription}",
        category="Cost",
        amount=wanted.amount,
        time_grain="Monthly",
        time_period=consumption.BudgetTimePeriodArgs(start_date=_this_month()),
        filter=consumption.BudgetFilterArgs(
            dimensions=consumption.BudgetComparisonExpressionArgs(
                name="ResourceGroupName", operator="In", values=groups
            )
        ),
        notifications={
            f"{kind}{percent}": consumption.NotificationArgs(
                enabled=True,
                operator="GreaterThanOrEqualTo",
                threshold=percent,
                threshold_type=kind,
                contact_emails=list(wanted.emails),
            )
            for kind, percent in _ALERTS
        },
        # It has to begin in the month in which it is made; afterwards that is no difference.
        opts=place.opts(ignore=["timePeriod"]),
    )


def _this_month() -> str:
    return datetime.now(UTC).strftime("%Y-%m-01T00:00:00Z")
