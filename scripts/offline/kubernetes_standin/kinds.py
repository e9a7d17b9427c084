"""The kinds of objects that this product declares; another one is one more entry in kinds.yaml.

The fields that can't be changed in place are those of the real plugin
(provider/pkg/provider/diff.go), so that the same program plans the same replacements on both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import yaml

SDK_VERSION = version("pulumi_kubernetes")


class Unserved(Exception):
    """Something that only the real plugin does; `instead` is what to do without it."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(
            "the stand-in for pulumi-kubernetes' plugin (which could not be downloaded) does not "
            f"serve {what}; {instead}, or install the real plugin pulumi-resource-kubernetes "
            f"{SDK_VERSION} on PATH, which always wins"
        )


@dataclass(frozen=True)
class Kind:
    """A kind of object, and what is particular about it.

    Args:
        api_version: Group and version as a manifest writes them.
        plural: As in the API server's paths.
        fixed: Fields whose change replaces the object.
        only_unawaited: Whether the real plugin waits for it by rules that are not served here, so
            that it has to be declared with `pulumi.com/skipAwait`.
        deletion_skipped: Whether `pulumi.com/skipAwait` covers the deletion too.
    """

    api_version: str
    name: str
    plural: str
    namespaced: bool = True
    fixed: tuple[str, ...] = ()
    only_unawaited: bool = False
    deletion_skipped: bool = False

    @property
    def type_token(self) -> str:
        """The SDK's name for it, such as `kubernetes:core/v1:ConfigMap`."""
        group = "core/v1" if self.api_version == "v1" else self.api_version
        return f"kubernetes:{group}:{self.name}"

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the API server's path of an object, or of all objects without `name`."""
        base = "/apis" if "/" in self.api_version else "/api"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{base}/{self.api_version}{scope}/{self.plural}" + (f"/{name}" if name else "")


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
_ALWAYS_FIXED = ("metadata.name", "metadata.namespace")
KINDS: Mapping[str, Kind] = {
    name: Kind(group, name, **{**fields, "fixed": (*_ALWAYS_FIXED, *fields.get("fixed", ()))})
    for group, kinds in _TABLE.items()
    for name, fields in kinds.items()
}
"""By name, which no two of them share."""


def kind_of(urn: str) -> Kind:
    """Return the kind of a resource, by its URN (urn:pulumi:stack::project::parent$type::name).

    Raises:
        Unserved: it is none of this product's.
    """
    type_token = urn.split("::", 3)[2].rsplit("$", 1)[-1]
    kind = KINDS.get(type_token.rpartition(":")[2])
    if kind is None or kind.type_token != type_token:
        raise Unserved(
            f"the type {type_token}",
            "add it to scripts/offline/kubernetes_standin/kinds.yaml if it is a plain object",
        )
    return kind


@dataclass(frozen=True)
class Reference:
    """Which object: its kind, its namespace (None for cluster-wide ones), its name."""

    kind: Kind
    namespace: str | None
    name: str

    @classmethod
    def of(cls, kind: Kind, obj: Mapping[str, Any]) -> Self:
        """Return what the manifest `obj` refers to."""
        names = obj.get("metadata") or {}
        return cls(kind, names.get("namespace"), str(names.get("name")))

    @property
    def id(self) -> str:
        """The resource's id."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def path(self) -> str:
        """The object's path on the API server."""
        return self.kind.path(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind.name} {self.id}"
