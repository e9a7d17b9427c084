"""Every documented rule that the double enforces; each has a failing fixture in tests/azure."""

from collections.abc import Iterator, Sequence

from scripts.offline.azure_recording.rules import clusters, money, names, others, pools
from scripts.offline.azure_recording.rules.rule import Inputs, Rule
from scripts.offline.azure_recording.shapes import Finding

RULES: Sequence[Rule] = (
    *names.RULES,
    *pools.RULES,
    *clusters.RULES,
    *others.RULES,
    *money.RULES,
)


def broken(token: str, inputs: Inputs) -> Iterator[Finding]:
    """Yield where a resource of type `token` with these inputs breaks a rule, and its source."""
    kind = token.partition(":")[2]
    for rule in RULES:
        if kind in rule.types:
            for found in rule.broken(inputs):
                yield Finding(found.path, f"{found.reason} ({rule.source})")
