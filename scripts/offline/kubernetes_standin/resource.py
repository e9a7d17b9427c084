"""The life of one object, by server-side apply; and what the stack's state keeps of it.

The state has the real plugin's own form: beside the live object, the inputs that made it, and the
name under which its fields are managed. So a stack can change over to the real plugin, and back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pulumi.provider.experimental.property_value import PropertyValue

from core import kube
from core.context import Context
from scripts.offline.kubernetes_standin import manifest
from scripts.offline.kubernetes_standin.client import Client, Refusal, Unreachable
from scripts.offline.kubernetes_standin.kinds import Reference, kind_of
from scripts.offline.kubernetes_standin.manifest import Object, Properties
from scripts.offline.kubernetes_standin.wait import NotReady, until_gone, until_ready

if TYPE_CHECKING:
    from scripts.offline.kubernetes_standin.server import StandIn

_MANAGER = "__fieldManager"
_SECONDS = 600.0
_LEFT_OPEN: Mapping[int | None, re.Pattern[str]] = {
    400: re.compile("does not support dry run"),
    # RBAC's words; those of quotas and of Pod Security are others.
    403: re.compile(r'cannot \w+ resource "'),
    404: re.compile("namespaces"),
    422: re.compile("immutable"),
}
"""By status, refusals of a dry run that do not show how the real run goes.

The dry run itself may be what is not allowed, the namespace may be made in the same run, and an
object that can't be changed is replaced in it.
"""


@dataclass(frozen=True)
class Resource:
    """An object, as the engine passes it.

    Args:
        inputs: Its inputs, as Check returned them; none for a deletion.
        state: What the stack's state has of it, empty when it is new.
        timeout: `customTimeouts` in seconds, 0 without one.
    """

    provider: StandIn
    urn: str
    inputs: Mapping[str, PropertyValue] = field(default_factory=dict)
    state: Mapping[str, PropertyValue] = field(default_factory=dict)
    timeout: float = 0

    @cached_property
    def obj(self) -> Object:
        """The inputs as a manifest."""
        return manifest.to_object(self.inputs)

    @cached_property
    def before(self) -> Object:
        """The live object as the state has it."""
        return manifest.to_object(
            {key: value for key, value in self.state.items() if not key.startswith("__")}
        )

    @cached_property
    def reference(self) -> Reference:
        """Which object it is."""
        return Reference.of(kind_of(self.urn), self.obj or self.before)

    @cached_property
    def manager(self) -> str:
        """The name under which the object's fields are managed: as before, or the URN's."""
        before = self.state.get(_MANAGER)
        return manifest.field_manager(self.urn) if before is None else str(before.value)

    def state_of(self, live: Mapping[str, object], obj: Object | None = None) -> Properties:
        """Return the state for a `live` object that `obj`, by default the inputs, made."""
        made_from = self.obj if obj is None else obj
        state = manifest.to_properties(
            manifest.with_metadata(live, managedFields=None), self.inputs
        )
        state["__inputs"] = PropertyValue(manifest.to_properties(made_from, self.inputs))
        state["__initialApiVersion"] = PropertyValue(self.reference.kind.api_version)
        state[_MANAGER] = PropertyValue(self.manager)
        return state

    def preview(self) -> None:
        """Have the API server check a create or an update, as far as it can already."""
        if manifest.has_unknown(self.obj):
            return
        self.provider.warn_if_unreachable(self.urn)
        # The real plugin may have made what a create replaces, under another field manager.
        replaced = not self.state and (self.urn, self.reference.id) in self.provider.in_state
        try:
            if not self.state and not replaced:
                self._existing()
            self._apply(dry_run=True, force=replaced)
        except Unreachable:
            return
        except Refusal as refusal:
            left_open = _LEFT_OPEN.get(refusal.status)
            if left_open is None or not left_open.search(str(refusal)):
                raise

    def create(self) -> Properties:
        """Make the object, or adopt what an interrupted create left behind; return its state.

        Raises:
            NotReady: the object was made, but is not ready.
            RuntimeError: an object of this name has another owner, or is being deleted and does
                not go; or others manage fields of it.
            Refusal, Unreachable: it could not be made.
        """
        existing, context = self._existing(), self.provider.context(self.urn)
        if existing is not None and "deletionTimestamp" in existing["metadata"]:
            context.status("waiting until the object of the same name is gone")
            until_gone(*self._awaited)
            existing = None
        live = self._apply()
        if existing is not None:
            context.info("adopted the object that already existed")
        return self._when_ready(live)

    def update(self) -> Properties:
        """Bring the object to its inputs in place, or make it again; the rest is as with create."""
        return self._when_ready(self._apply())

    def read(self) -> tuple[Properties, Properties] | None:
        """Return the state as it is now, and the inputs that would make it so; None if it is gone.

        Raises:
            RuntimeError: the cluster can't be reached.
        """
        live = None
        try:
            live = self.provider.client().get(self.reference)
        except Unreachable as error:
            self._drop(error)
        if live is None:
            return None
        now = manifest.drifted(self.obj, self.before, live)
        return self.state_of(live, now), manifest.to_properties(now, self.inputs)

    def delete(self) -> None:
        """Delete the object; succeeds when it no longer exists.

        Raises:
            RuntimeError: the cluster can't be reached.
            TimeoutError, InterruptedError: it still exists; the text names the finalizers.
        """
        try:
            self.provider.client().delete(self.reference)
            if not (manifest.skips_await(self.before) and self.reference.kind.deletion_skipped):
                until_gone(*self._awaited)
        except Unreachable as error:
            self._drop(error)

    def _drop(self, error: Unreachable) -> None:
        """Let the object leave the state because its cluster can't be reached, if that may be."""
        if not self.provider.delete_unreachable:
            raise RuntimeError(f"{error}. {kube.IF_GONE} and run the operation again") from None
        self.provider.context(self.urn).info(f"{error}; deleteUnreachable drops it from the state")

    def _existing(self) -> Object | None:
        """Return the object that a create finds and this stack has made; None without one."""
        existing = self.provider.client().get(self.reference)
        if (
            existing is not None
            and "deletionTimestamp" not in existing["metadata"]
            and not manifest.is_managed_by(existing, self.manager)
        ):
            owners = ", ".join(manifest.managers(existing)) or "no one"
            raise RuntimeError(
                f"{self.reference} already exists, and this stack did not make it (its fields are "
                f"managed by {owners}). Delete it, and run the operation again"
            )
        return existing

    def _apply(self, *, dry_run: bool = False, force: bool = False) -> Object:
        """Apply the object and return what it then is."""
        client = self.provider.client()
        obj = manifest.with_owner(self.obj, self.manager)
        try:
            live, warnings = client.apply(
                self.reference, obj, self.manager, force=force, dry_run=dry_run
            )
        except Refusal as refusal:
            if force or not refusal.conflicts:
                raise
            if all(map(manifest.yields, refusal.conflicts.values())):
                return self._apply(dry_run=dry_run, force=True)
            fields = (f"{field} is managed by {who!r}" for field, who in refusal.conflicts.items())
            raise RuntimeError(
                f"{self.reference}: {'; '.join(fields)}. Change them back with the tool that "
                "manages them, or delete the object, and run the operation again"
            ) from None
        for warning in warnings:
            self.provider.context(self.urn).warn(warning)
        return live

    def _when_ready(self, live: Object) -> Properties:
        if not manifest.skips_await(self.obj):
            try:
                live = until_ready(*self._awaited, live)
            except NotReady as failure:
                failure.id, failure.state = self.reference.id, self.state_of(failure.live)
                raise
        return self.state_of(live)

    @property
    def _awaited(self) -> tuple[Client, Reference, float, Context]:
        context = self.provider.context(self.urn)
        return self.provider.client(), self.reference, self.timeout or _SECONDS, context
