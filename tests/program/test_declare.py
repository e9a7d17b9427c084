"""Kubernetes objects are declared without the SDK's classes of their kinds, and yet as by them."""

from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any

import pulumi
import pytest

from core import declare
from tests.program.declared import PLAIN, Declare

_ARGUMENTS = {
    "apiVersion": "api_version",
    "automountServiceAccountToken": "automount_service_account_token",
    "imagePullSecrets": "image_pull_secrets",
    "roleRef": "role_ref",
}


def by_the_sdk(
    token: str, name: str, properties: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> pulumi.CustomResource:
    """Declare an object by the SDK's class of its kind, which knows some of the options itself."""
    _, group, kind = token.split(":")
    package = group.replace(".k8s.io", "").replace(".authorization", "").replace("/", ".")
    module = import_module(f"pulumi_kubernetes.{package}")
    arguments = {_ARGUMENTS.get(key, key): value for key, value in properties.items()}
    opts = copy(opts)
    opts.version = opts.additional_secret_outputs = None
    made: pulumi.CustomResource = getattr(module, kind)(name, **arguments, opts=opts)
    return made


@pytest.mark.usefixtures("pretended")
def test_the_engine_is_sent_what_the_sdks_classes_send(
    declared: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requests() -> dict[str, Any]:
        """Return what is sent for each object, less what makes no difference to one that exists."""
        volumes = {"data": {"hostPath": "/data", "mountPath": "/data"}}
        jobs = {"mine": {"script": PLAIN, "volumes": volumes}}
        program = declared("mine", cluster={"kind": "pretended", "private": True}, jobs=jobs)
        sent = {each.urn: each.request for each in program.starting("kubernetes:")}
        for request in sent.values():
            # Where the program stood, and types that Slipway has never used.
            for field in ("aliases", "sourcePosition", "stackTrace"):
                request.ClearField(field)
            request.dependencies.sort()
            for each in request.propertyDependencies.values():
                each.urns.sort()
        return sent

    ours = requests()
    monkeypatch.setattr(declare, "CustomResource", by_the_sdk)
    theirs = requests()
    assert len({request.type for request in ours.values()}) == 16, "every kind"
    assert ours.keys() == theirs.keys()
    for urn, request in ours.items():
        assert request == theirs[urn], urn


def test_what_a_component_cannot_go_on_without_is_raised_and_ends_no_process() -> None:
    """The provider's process serves the rest of the program."""
    with pytest.raises(pulumi.RunError, match="not ready"):
        declare.end("the cluster is not ready")
