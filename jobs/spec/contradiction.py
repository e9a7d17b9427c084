"""How a rule says that a job's fields do not go together."""

from pydantic.alias_generators import to_camel

from core.problem import Contradiction, Path


def of(path: Path, text: str, *others: str) -> Contradiction:
    """Return a contradiction that rests on the first part of `path` and on other fields."""
    first, *rest = path
    top = to_camel(str(first))
    return Contradiction((top, *rest), text, frozenset({top, *map(to_camel, others)}))
