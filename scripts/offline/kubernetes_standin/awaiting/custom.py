"""`pulumi.com/waitFor`: wait for a condition, or for a value in any field."""

import json
from collections.abc import Mapping
from typing import Any

from scripts.offline.kubernetes_standin.awaiting.verdict import READY, Look, Verdict, condition
from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.paths import Steps, parse
from scripts.offline.kubernetes_standin.unserved import Unserved


def wait_for(text: str) -> Look:
    """Return the look that the annotation's value describes; a JSON array means all of them.

    Raises:
        ValueError: it is neither `condition=...` nor `jsonpath=...`.
        Unserved: a JSONPath with more in it than fields and indices.
    """
    try:
        expressions = json.loads(text)
    except ValueError:
        expressions = [text]
    if not isinstance(expressions, list) or not expressions:
        raise ValueError(f"pulumi.com/waitFor: at least one condition is needed, not {text!r}")
    looks = [_single(str(expression)) for expression in expressions]

    def look(cluster: Cluster, obj: Mapping[str, Any]) -> Verdict:
        verdicts = [each(cluster, obj) for each in looks]
        return next((verdict for verdict in verdicts if verdict != READY), READY)

    return look


def _single(expression: str) -> Look:
    kind, _, rest = expression.partition("=")
    if kind == "condition" and rest:
        return _condition(rest)
    if kind == "jsonpath" and rest:
        return _field(rest)
    raise ValueError(
        f'pulumi.com/waitFor: expected a "jsonpath=" or "condition=" prefix, got {expression!r}'
    )


def _condition(text: str) -> Look:
    name, _, wanted = text.partition("=")
    status = wanted or "True"

    def look(_: Cluster, obj: Mapping[str, Any]) -> Verdict:
        found = condition(obj, name).get("status")
        if str(found).lower() == status.lower():
            return READY
        return Verdict("waiting", f"condition {name} is {found}, not {status}")

    return look


def _field(text: str) -> Look:
    inner, closing, rest = text.strip().removeprefix("{").partition("}")
    path, has_value, value = (inner, rest.startswith("="), rest[1:]) if closing else _split(inner)
    try:
        steps = parse(path.removeprefix(".").replace("['", '["').replace("']", '"]'))
    except ValueError:
        raise Unserved(
            f"pulumi.com/waitFor with {text}", "use a path of fields and indices alone"
        ) from None

    def look(_: Cluster, obj: Mapping[str, Any]) -> Verdict:
        found = _at(obj, steps)
        if found is not None and (not has_value or str(found) == value):
            return READY
        return Verdict("waiting", f"{path} is {found}" + (f", not {value}" if has_value else ""))

    return look


def _split(text: str) -> tuple[str, bool, str]:
    path, separator, value = text.partition("=")
    return path, bool(separator), value


def _at(value: Any, steps: Steps) -> Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
