"""The objects of one cluster: discovery, apply, read, delete."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.offline.kubernetes_standin.kinds import Kind, Place
from scripts.offline.kubernetes_standin.manifest import Object
from scripts.offline.kubernetes_standin.transport import Answer, Refusal, Transport


class NoSuchKind(Exception):
    """The API server does not serve this kind, for example before its CRD is there."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(
            f"the API server serves no kind {kind}; if a CustomResourceDefinition makes it, "
            "let this resource depend on that one (depends_on)"
        )


@dataclass(frozen=True)
class Endpoint:
    """Where objects of a kind live."""

    base: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the path of an object, or of all objects without `name`."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.base}{scope}/{self.plural}" + (f"/{name}" if name else "")


class Cluster:
    """Speaks to one API server; every method may raise Refusal or Unreachable."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._endpoints: dict[Kind, Endpoint] = {}
        self._lock = threading.Lock()

    def endpoint(self, kind: Kind) -> Endpoint:
        """Look up where objects of `kind` live.

        Raises:
            NoSuchKind: the API server does not serve it.
        """
        with self._lock:
            if kind not in self._endpoints:
                self._endpoints |= self._discover(kind)
            found = self._endpoints.get(kind)
        if found is None:
            raise NoSuchKind(kind)
        return found

    def _discover(self, kind: Kind) -> dict[Kind, Endpoint]:
        base = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        try:
            answer = self.transport.request("GET", base)
        except Refusal as refusal:
            if refusal.status == 404:
                return {}
            raise
        return {
            Kind(kind.group, kind.version, entry["kind"]): Endpoint(
                base, entry["name"], entry["namespaced"]
            )
            for entry in answer.body.get("resources") or ()
            if "/" not in entry["name"]
        }

    def forget_kinds(self) -> None:
        """Look all kinds up again, because a CustomResourceDefinition has changed."""
        with self._lock:
            self._endpoints.clear()

    def _path(self, place: Place) -> str:
        return self.endpoint(place.kind).path(place.namespace, place.name)

    def get(self, place: Place) -> Object | None:
        """Return the live object, or None when there is none."""
        try:
            found: Object = self.transport.request("GET", self._path(place)).body
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise
        return found

    def apply(self, obj: Mapping[str, Any], manager: str, *, force: bool, dry_run: bool) -> Answer:
        """Apply `obj` on the server (server-side apply) and return the live object."""
        query = {
            "fieldManager": manager,
            "force": "true" if force else "false",
            "fieldValidation": "Warn",
        }
        if dry_run:
            query["dryRun"] = "All"
        return self.transport.request("PATCH", self._path(Place.of_object(obj)), query, obj)

    def delete(self, place: Place, propagation: str) -> None:
        """Ask for the object's deletion; succeeds when it is gone already."""
        try:
            self.transport.request(
                "DELETE",
                self._path(place),
                body={
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": propagation,
                },
            )
        except Refusal as refusal:
            if refusal.status != 404:
                raise

    def list(self, kind: Kind, namespace: str | None, **selectors: str) -> list[Object]:
        """Return the objects of `kind`, narrowed by `labelSelector` or `fieldSelector`."""
        answer = self.transport.request("GET", self.endpoint(kind).path(namespace), selectors)
        return list(answer.body.get("items") or ())

    def log(self, pod: Mapping[str, Any], container: str, *, lines: int, previous: bool) -> str:
        """Return the last lines that a pod's container wrote; empty when there are none."""
        names = pod["metadata"]
        path = f"/api/v1/namespaces/{names['namespace']}/pods/{names['name']}/log"
        query = {"container": container, "tailLines": str(lines)}
        if previous:
            query["previous"] = "true"
        try:
            return str(self.transport.request("GET", path, query).body).rstrip()
        except Refusal:
            return ""
