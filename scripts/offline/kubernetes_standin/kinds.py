"""Which kind of object a Pulumi type or a manifest means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Kind:
    """A group, version and kind; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @classmethod
    def of_type(cls, type_token: str) -> Self:
        """Read `kubernetes:apps/v1:Deployment`."""
        _, module, kind = type_token.split(":")
        group, _, version = module.rpartition("/")
        return cls("" if group == "core" else group, version, kind)

    @classmethod
    def of_object(cls, obj: Mapping[str, Any]) -> Self:
        """Read `apiVersion` and `kind` of a manifest."""
        group, _, version = str(obj["apiVersion"]).rpartition("/")
        return cls("" if group == "core" else group, version, str(obj["kind"]))

    @property
    def api_version(self) -> str:
        """Group and version as a manifest writes them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


@dataclass(frozen=True)
class Place:
    """Where one object is: its kind, its namespace (None for cluster-wide ones), its name."""

    kind: Kind
    namespace: str | None
    name: str

    @classmethod
    def of_object(cls, obj: Mapping[str, Any]) -> Self:
        """Return where `obj` belongs."""
        names = obj["metadata"]
        return cls(Kind.of_object(obj), names.get("namespace"), str(names["name"]))

    @classmethod
    def of_id(cls, kind: Kind, resource_id: str) -> Self:
        """Read a resource's id, `namespace/name` or `name`."""
        namespace, _, name = resource_id.rpartition("/")
        return cls(kind, namespace or None, name)

    @property
    def id(self) -> str:
        """The resource's id."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.id}"


CUSTOM_RESOURCE_DEFINITION = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
