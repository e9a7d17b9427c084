"""The resource `slipway:jobs:Claim`: a job's volume claim, which can be kept and adopted again.

Pulumi's Kubernetes provider can't do this: it refuses to create an object that already exists.
"""

from http import HTTPStatus
from typing import Any, ClassVar, Literal

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core import kube
from core.context import Context
from core.handler import Change, Handler, Properties
from core.kube import ADMISSION, Request
from core.manifests import MADE_BY, made_by, names_in
from core.wait import NotYet, until
from jobs.api.client import Unreachable

_SECONDS = 60
_FIXED = ("metadata.namespace", "spec.accessModes", "spec.storageClassName")
"""A claim's immutable fields."""


class ClaimHandler(Handler):
    """Handler for a claim. The engine does not call `delete` for a claim that is to be kept."""

    replaced_by: ClassVar[frozenset[str]] = frozenset(f"manifest.{place}" for place in _FIXED)

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return a change if the claim was deleted: pods that mount it could not start."""
        try:
            is_gone = _ask(kube.connect(state["kubeconfig"]), state, "GET") is None
        except (NotYet, RuntimeError, Unreachable, ConfigException):
            return []  # the claim may exist in a cluster that is not responding
        return [Change("manifest", drift=True)] if is_gone else []

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Create the claim, or adopt the one that this stack kept.

        Raises:
            RuntimeError: the claim exists but is not this stack's, or the API server refused it.
            TimeoutError: the API server did not respond.
        """
        if _apply(inputs, context):
            context.info(f"{_name(inputs)} already exists: adopted with its files")
        return _name(inputs), {}

    def read(self, state: Properties, context: Context) -> Properties | None:
        return None if _ask(kube.connect(state["kubeconfig"]), state, "GET") is None else {}

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Resize the claim, or create it in a new cluster."""
        existed, metadata = _apply(inputs, context), inputs["manifest"]["metadata"]
        server, *_, chosen = names_in(state["kubeconfig"]) or ("", "")
        if not existed and server not in names_in(inputs["kubeconfig"]):
            context.warn(
                f"{_name(inputs)} is new and empty. If {server} exists, its files stay there; "
                f"to delete them: kubectl --context {chosen} --namespace {metadata['namespace']} "
                f"delete persistentvolumeclaim {metadata['name']}"
            )
        return {}

    def delete(self, state: Properties, context: Context) -> None:
        """Delete the claim and its files, and wait until it is gone; a pod may delay this."""
        api = kube.connect(state["kubeconfig"])

        def attempt() -> None:
            try:
                if _ask(api, state, "DELETE") is not None:
                    raise NotYet("in use: `kubectl describe persistentvolumeclaim` shows the pod")
            except Unreachable:
                if not kube.may_be_gone():
                    raise

        until(attempt, _SECONDS, f"the deletion of {_name(state)}", context)


def _apply(inputs: Properties, context: Context) -> bool:
    """Apply the claim's manifest, and return whether it existed."""
    api, desired = kube.connect(inputs["kubeconfig"]), inputs["manifest"]

    def attempt() -> bool:
        existing = _ask(api, inputs, "GET")
        if existing is None:
            _ask(api, inputs, "POST", desired)
            return False
        if "deletionTimestamp" in existing["metadata"]:
            raise NotYet("a claim with that name is being deleted")
        own = desired["metadata"]["annotations"]
        annotations = existing["metadata"].get("annotations") or {}
        if (maker := made_by(existing)) != own[MADE_BY]:
            raise RuntimeError(
                f"{_name(inputs)} exists, created by {maker or 'another program'}. To use it, set "
                f"`claim: {desired['metadata']['name']}` on the volume instead of "
                "`size`; otherwise rename the volume"
            )
        resources = desired["spec"]["resources"]
        if existing["spec"]["resources"] != resources or not own.items() <= annotations.items():
            change = {"metadata": {"annotations": own}, "spec": {"resources": resources}}
            _ask(api, inputs, "PATCH", change)
        return True

    return until(attempt, _SECONDS, _name(inputs), context)


def _ask(
    api: ApiClient,
    properties: Properties,
    method: Literal["GET", "POST", "DELETE", "PATCH"],
    body: dict[str, Any] | None = None,
) -> Any | None:
    """Return the response to a request about the claim, or None if it does not exist."""
    metadata, settled = properties["manifest"]["metadata"], None
    path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims"
    if method != "POST":
        path, settled = f"{path}/{metadata['name']}", HTTPStatus.NOT_FOUND
    try:
        return kube.ask(api, Request(method, path, body=body), limit=ADMISSION, settled=settled)
    except ApiException as error:
        if error.status == HTTPStatus.CONFLICT or kube.is_busy(error):
            raise NotYet(kube.api_message(error)) from error
        raise RuntimeError(f"{_name(properties)} was refused: {kube.api_message(error)}") from error


def _name(properties: Properties) -> str:
    metadata = properties["manifest"]["metadata"]
    return f"PersistentVolumeClaim {metadata['namespace']}/{metadata['name']}"
