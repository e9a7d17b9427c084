"""What the stand-in plugin makes of single objects, on a real API server and without the CLI."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiClient

from tests.engine.awaiting import await_true
from tests.engine.standin_calls import NotInitialized, Plugin

# The client takes a dict wherever it takes an object, but its types don't say so.
Api = Any
HOLD = "example.com/hold"
GONE = """\
clusters: [{name: gone, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: gone, user: {token: made-up}}]
contexts: [{name: gone, context: {cluster: gone, user: gone}}]
current-context: gone
"""


@pytest.fixture
def plugin(kubeconfig: str) -> Plugin:
    return Plugin(kubeconfig)


@pytest.fixture
def own(core: Api) -> Iterator[str]:
    """The name of a namespace that a test may make, which is deleted in the end."""
    name = f"standin-{secrets.token_hex(4)}"
    yield name
    if name in {each.metadata.name for each in core.list_namespace().items}:
        core.delete_namespace(name)


def config_map(namespace: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "data": {"owner": "stack"},
    }


def definition(group: str, plural: str, kind: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def home(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def test_a_preview_shows_what_the_api_server_refuses(plugin: Plugin, namespace: str) -> None:
    wrong = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "wrong",
            "namespace": namespace,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {"ports": [{"port": 70000}]},
    }
    with pytest.raises(Exception, match=r"spec.ports\[0\].port: Invalid value: 70000"):
        plugin.preview(wrong)
    # Its namespace may be made in the same run.
    plugin.preview(config_map(f"{namespace}-absent", "absent"))


def test_objects_whose_state_was_lost_are_adopted_and_not_made_twice(
    kubeconfig: str, core: Api, own: str
) -> None:
    labels = {"team": "a"}
    bare = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bare", "namespace": own}}
    objects = [home(own), config_map(own, "named", labels=labels), bare]
    first, second = Plugin(kubeconfig), Plugin(kubeconfig)
    before = [first.up(each) for each in objects]
    labels["team"] = "b"
    after = [second.up(each) for each in objects]
    assert (
        [each.id for each in after]
        == [each.id for each in before]
        == [
            own,
            f"{own}/named",
            f"{own}/bare",
        ]
    )
    uids = [[each.live["metadata"]["uid"] for each in made] for made in (before, after)]
    assert uids[0] == uids[1]
    assert core.read_namespaced_config_map("named", own).metadata.labels["team"] == "b"


def test_an_object_of_someone_else_is_left_alone(
    kubeconfig: str, core: Api, namespace: str
) -> None:
    theirs = {"metadata": {"name": "taken"}, "data": {"owner": "someone"}}
    core.create_namespaced_config_map(namespace, theirs, field_manager="someone")

    def owner(name: str = "taken") -> str:
        return str(core.read_namespaced_config_map(name, namespace).data["owner"])

    manifest = config_map(namespace, "taken")
    for act in (Plugin(kubeconfig).preview, Plugin(kubeconfig).up):
        with pytest.raises(
            Exception, match=f"ConfigMap {namespace}/taken already exists"
        ) as raised:
            act(manifest)
        assert "someone" in str(raised.value)
    assert owner() == "someone"

    ours = Plugin(kubeconfig).up(config_map(namespace, "ours"))
    core.patch_namespaced_config_map(
        "ours", namespace, {"data": {"owner": "someone"}}, field_manager="someone"
    )
    with pytest.raises(Exception, match=r"\.data\.owner is managed by 'someone'"):
        Plugin(kubeconfig).up(config_map(namespace, "ours"), ours)
    assert owner("ours") == "someone"


def test_an_object_that_cannot_become_ready_fails_fast_and_the_next_run_tries_again(
    plugin: Plugin, api: ApiClient
) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    first, second = definition(group, "boxes", "Box"), definition(group, "crates", "Box")
    in_the_way = plugin.up(first)
    with pytest.raises(NotInitialized, match="its names are refused") as failure:
        plugin.up(second)
    assert "condition NamesAccepted is False" in str(failure.value)
    plugin.delete(in_the_way)

    extensions: Api = client.ApiextensionsV1Api(api)

    def statuses() -> list[str]:
        live = extensions.read_custom_resource_definition(second["metadata"]["name"])
        return [each.status for each in live.status.conditions]

    await_true(lambda: "False" not in statuses(), otherwise=lambda: str(statuses()))
    resource = failure.value.resource
    assert plugin.changes(second, resource) == []
    repaired = plugin.up(second, resource)
    assert repaired.live["metadata"]["uid"] == resource.live["metadata"]["uid"]
    plugin.delete(repaired)


def test_a_namespace_that_is_held_back_names_what_is_in_it(
    plugin: Plugin, core: Api, own: str
) -> None:
    resource = plugin.up(home(own))
    core.create_namespaced_config_map(own, {"metadata": {"name": "other", "finalizers": [HOLD]}})
    with pytest.raises(Exception, match=f"Namespace {own} still exists 3 s after") as raised:
        plugin.delete(resource, timeout=3)
    assert f"ConfigMap other is held by the finalizer {HOLD}" in str(raised.value)

    core.patch_namespaced_config_map("other", own, {"metadata": {"finalizers": None}})
    # The API server looks after it every few seconds.
    plugin.delete(resource)
    assert own not in {each.metadata.name for each in core.list_namespace().items}


def test_objects_of_a_lost_cluster_can_be_dropped(
    kubeconfig: str, core: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = config_map(namespace, "left")
    left = Plugin(kubeconfig).up(manifest)
    lost = Plugin(GONE)
    assert lost.changes(manifest, left) == []
    [warning] = lost.messages
    assert "configured Kubernetes cluster is unreachable" in warning
    with pytest.raises(Exception, match="PULUMI_K8S_DELETE_UNREACHABLE=true"):
        lost.delete(left)

    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    Plugin(GONE).delete(left)
    core.delete_namespaced_config_map("left", namespace)
