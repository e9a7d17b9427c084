"""Server-side apply, with conflicts and warnings that say what to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.context import Context
from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.kinds import Kind, Place
from scripts.offline.kubernetes_standin.manifest import Object, is_set
from scripts.offline.kubernetes_standin.ownership import owns, with_owner, yields
from scripts.offline.kubernetes_standin.paths import Steps, parse
from scripts.offline.kubernetes_standin.planning import in_namespace, is_namespaced
from scripts.offline.kubernetes_standin.settings import Settings
from scripts.offline.kubernetes_standin.transport import Answer, Refusal

_CONFLICT = "FieldManagerConflict"
_MANAGER = re.compile(r'conflict with "([^"]*)"')


class Conflict(Exception):
    """Others manage fields that this resource sets to another value."""

    def __init__(self, what: Place, conflicts: Sequence[tuple[str, str]]) -> None:
        fields = "; ".join(f"{field} is managed by {manager!r}" for field, manager in conflicts)
        super().__init__(
            f"{what}: {fields}. To take the fields over, set the annotation "
            'pulumi.com/patchForce: "true" on this resource; to leave them to the other manager, '
            "leave them out of the program or name them in ignore_changes"
        )


@dataclass(frozen=True)
class Applier:
    """Applies objects in the name of one resource.

    Args:
        cluster: Where to.
        settings: The provider's configuration.
        context: Who hears the API server's warnings.
        manager: The name under which the fields are managed.
        dry_run: Whether the server only shows what it would make.
    """

    cluster: Cluster
    settings: Settings
    context: Context
    manager: str
    dry_run: bool = False

    def apply(self, obj: Object, live: Mapping[str, Any] | None) -> Object:
        """Apply `obj`, to the `live` object if there is one, and return what it then is.

        Raises:
            Conflict: other managers hold fields of it, and not all of them yield.
            Refusal: the API server refused for another reason.
        """
        force = is_set(obj, "patchForce") or self.settings.patch_force
        try:
            answer = self._send(obj, force=force)
        except Refusal as refusal:
            conflicts = _conflicts(refusal)
            if not conflicts:
                raise
            if not all(yields(live or {}, other) for _, other in conflicts):
                raise Conflict(Place.of_object(obj), conflicts) from None
            answer = self._send(obj, force=True)
        for warning in answer.warnings:
            if not (self.settings.suppress_deprecation_warnings and "deprecated" in warning):
                self.context.warn(warning)
        applied: Object = answer.body
        return applied

    def _send(self, obj: Object, *, force: bool) -> Answer:
        owned = with_owner(obj, self.manager)
        return self.cluster.apply(owned, self.manager, force=force, dry_run=self.dry_run)

    def scoped(self, obj: Object) -> Object:
        """Return `obj` with a namespace where its kind has one, and without where it has none."""
        return in_namespace(obj, is_namespaced(self.cluster, Kind.of_object(obj)), "default")


def _conflicts(refusal: Refusal) -> list[tuple[str, str]]:
    """Return each field in conflict and its manager."""
    return [
        (cause.field, found.group(1))
        for cause in refusal.causes
        if cause.reason == _CONFLICT and (found := _MANAGER.search(cause.message))
    ]


def is_immutable(refusal: Refusal) -> bool:
    """Tell whether the server refused to change a field that can't be changed."""
    return refusal.status == 422 and "immutable" in refusal.message


def leave_ignored(
    obj: Object, live: Mapping[str, Any] | None, manager: str, ignored: Sequence[str]
) -> Object:
    """Return `obj` with the fields in `ignored` as they are on the cluster.

    One that another manager holds (a replica count, an autoscaler's) is left out: applying even
    its present value would claim it.
    """
    if live is None:
        return obj
    for text in ignored:
        steps = parse(text)
        found, value = _find(live, steps)
        if found and owns(live, manager, steps):
            obj = _with(obj, steps, value)
        elif found:
            obj = _without(obj, steps)
    return obj


def _find(value: Any, steps: Steps) -> tuple[bool, Any]:
    for step in steps:
        if isinstance(value, list):
            value = dict(enumerate(value))
        if not isinstance(value, Mapping) or step not in value:
            return False, None
        value = value[step]
    return True, value


def _with(value: Any, steps: Steps, leaf: Any) -> Any:
    if not steps:
        return leaf
    step, rest = steps[0], steps[1:]
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [_with(item, rest, leaf) if at == step else item for at, item in enumerate(value)]
    if isinstance(step, str) and (value is None or isinstance(value, Mapping)):
        given = value or {}
        return {**given, step: _with(given.get(step), rest, leaf)}
    return value


def _without(value: Any, steps: Steps) -> Any:
    step, rest = steps[0], steps[1:]
    if isinstance(value, Mapping) and step in value:
        if not rest:
            return {key: inner for key, inner in value.items() if key != step}
        return {**value, step: _without(value[str(step)], rest)}
    if isinstance(value, list) and isinstance(step, int) and step < len(value) and rest:
        return [_without(item, rest) if at == step else item for at, item in enumerate(value)]
    return value
