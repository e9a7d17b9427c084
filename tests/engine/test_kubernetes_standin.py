"""The stand-in plugin under ordinary programs: the real engine, a real API server."""

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client import ApiClient

from infra import toolchain
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.standin_stack import Stack

# The client takes a dict wherever it takes an object, but its types don't say so.
Api = Any


@pytest.fixture(scope="module")
def api(kubeconfig: str) -> Iterator[ApiClient]:
    """A client of the tests' own, to look past the plugin."""
    configuration = client.Configuration()
    load: Any = config.load_kube_config_from_dict
    load(yaml.safe_load(kubeconfig), client_configuration=configuration)
    with ApiClient(configuration) as connected:
        yield connected


@pytest.fixture(scope="module")
def core(api: ApiClient) -> Api:
    """The core API."""
    return client.CoreV1Api(api)


@pytest.fixture(scope="module")
def apps(api: ApiClient) -> Api:
    """The API of Deployments."""
    return client.AppsV1Api(api)


@pytest.fixture(scope="module")
def namespace(core: Api) -> Iterator[str]:
    """A namespace that the programs may put objects into."""
    name = f"standin-{secrets.token_hex(4)}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


@pytest.fixture
def stack(tmp_path: Path, root: Path, kubeconfig: str) -> Iterator[Stack]:
    """A stack with nothing in it; what a test leaves in it is deleted."""
    made = Stack(tmp_path, root, kubeconfig)
    yield made
    if made.has_resources:
        made.pulumi("cancel", "--yes", "--stack", "test")
        made.attempt("destroy", environment=made.environment())


def _config_map(core: Api, name: str, namespace: str) -> Any:
    return core.read_namespaced_config_map(name, namespace)


def _config_maps(core: Api, namespace: str) -> dict[str, str]:
    """Return the identity of each ConfigMap that a program made."""
    return {
        item.metadata.name: item.metadata.uid
        for item in core.list_namespaced_config_map(namespace).items
        if item.metadata.name != "kube-root-ca.crt"
    }


def test_a_program_lives_from_create_to_destroy(stack: Stack, core: Api, apps: Api) -> None:
    own = f"standin-{secrets.token_hex(4)}"

    created = stack.up("life", namespace=own)
    assert created.changes["create"] == 6
    unnamed = stack.output("unnamed")
    assert unnamed.startswith("unnamed-")
    first = _config_maps(core, own)
    assert set(first) == {"named", unnamed}

    assert stack.up("life", namespace=own).changes == {}

    updated = stack.up("life", namespace=own, team="b")
    assert updated.changes == {"update": 2}
    assert updated.diff("named") == {
        'metadata.labels["example.com/team"]': "update",
        "metadata.labels.team": "update",
    }
    assert _config_map(core, "named", own).metadata.labels["team"] == "b"

    shown = stack.preview("life", namespace=own, team="b", content="2")
    assert shown.diff("named") == {"data.content": "update-replace"}
    replaced = stack.up("life", namespace=own, team="b", content="2")
    assert replaced.changes == {"replace": 2}
    second = _config_maps(core, own)
    assert set(first.values()).isdisjoint(second.values())
    assert set(second) == {"named", stack.output("unnamed")}

    forced = stack.up(
        "life", namespace=own, team="c", content="2", replace_on="metadata.labels.team"
    )
    assert forced.changes == {"replace": 1, "update": 1}

    apps.patch_namespaced_deployment_scale(
        "web", own, {"spec": {"replicas": 3}}, field_manager="autoscaler"
    )
    ignored = stack.up(
        "life", namespace=own, team="d", content="2", replicas=1, ignore="spec.replicas"
    )
    assert "spec.replicas" not in ignored.diff("web")
    assert apps.read_namespaced_deployment("web", own).spec.replicas == 3

    stack.destroy()
    with pytest.raises(client.ApiException, match="404"):
        core.read_namespace(own)


def test_a_preview_shows_what_the_api_server_refuses(stack: Stack, namespace: str) -> None:
    refusal = stack.refused("preview", program="invalid", namespace=namespace)
    assert "spec.ports[0].port: Invalid value: 70000" in refusal
    assert f"{namespace}-absent" not in refusal


def test_a_refresh_sees_drift_and_the_next_up_repairs_it(
    stack: Stack, core: Api, namespace: str
) -> None:
    own = f"{namespace}-drift"
    stack.up("life", namespace=own)
    assert stack.refresh().changes == {}
    core.patch_namespaced_config_map(
        "named",
        own,
        {"metadata": {"labels": {"team": None, "example.com/team": "x", "other": "theirs"}}},
        field_manager="kubectl-edit",
    )
    gone = stack.output("unnamed")
    core.delete_namespaced_config_map(gone, own)

    assert stack.refresh().changes == {"update": 1, "delete": 1}
    repaired = stack.up("life", namespace=own)

    assert repaired.changes == {"update": 1, "create": 1}
    assert repaired.diff("named") == {
        'metadata.labels["example.com/team"]': "update",
        "metadata.labels.team": "add",
    }
    labels = _config_map(core, "named", own).metadata.labels
    assert labels == {"team": "a", "example.com/team": "a", "other": "theirs"}


def test_objects_whose_state_was_lost_are_adopted_and_not_made_twice(
    stack: Stack, core: Api, namespace: str
) -> None:
    own = f"{namespace}-lost"
    stack.up("life", namespace=own)
    before = _config_maps(core, own)

    stack.lose_state()
    stack.up("life", namespace=own, team="b")

    assert _config_maps(core, own) == before
    assert _config_map(core, "named", own).metadata.labels["team"] == "b"


def test_an_object_of_someone_else_is_left_alone(stack: Stack, core: Api, namespace: str) -> None:
    core.create_namespaced_config_map(
        namespace,
        {"metadata": {"name": "taken"}, "data": {"owner": "someone"}},
        field_manager="someone",
    )
    refusal = stack.refused("preview", program="taken", namespace=namespace)
    assert f"ConfigMap {namespace}/taken already exists" in refusal
    assert "someone" in refusal

    conflict = stack.refused("up", program="taken", namespace=namespace, upsert=True)
    assert ".data.owner is managed by 'someone'" in conflict
    assert "pulumi.com/patchForce" in conflict
    assert _config_map(core, "taken", namespace).data == {"owner": "someone"}

    stack.up("taken", namespace=namespace, upsert=True, force=True)
    assert _config_map(core, "taken", namespace).data == {"owner": "stack"}


def test_a_deployment_that_cannot_start_fails_fast_and_says_why(
    stack: Stack, core: Api, namespace: str
) -> None:
    own = f"{namespace}-quota"
    core.create_namespace({"metadata": {"name": own}})
    core.create_namespaced_resource_quota(
        own, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    )
    started = time.monotonic()
    failure = stack.refused("up", program="stuck", namespace=own, replicas=1)
    assert time.monotonic() - started < 120, "its limit is 600 s"
    assert "FailedCreate" in failure
    assert "exceeded quota" in failure

    # The object is in the state, so that the next run changes it.
    assert stack.up("stuck", namespace=own, replicas=0).changes == {"update": 1}
    stack.destroy()
    core.delete_namespace(own)


def test_a_wait_ends_with_ctrl_c_and_a_killed_run_is_taken_up_again(
    stack: Stack, apps: Api, namespace: str
) -> None:
    nowhere = {"node_selector": {"no": "such-node"}}

    def deployments() -> list[str]:
        return [item.metadata.name for item in apps.list_namespaced_deployment(namespace).items]

    log = stack.directory / "up.log"

    def start() -> subprocess.Popen[bytes]:
        command = ["up", "--yes", "--skip-preview", "--non-interactive", "--color", "never"]
        with log.open("wb") as opened:
            return subprocess.Popen(
                [str(toolchain.path("pulumi")), *command],
                cwd=stack.directory,
                env=stack.environment("stuck", namespace=namespace, replicas=1, **nowhere),
                stdout=opened,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def is_awaited() -> bool:
        pattern = r"apps/v1:Deployment \S+ creating \(\d+s\) \S"
        return re.search(pattern, log.read_text()) is not None

    killed = start()
    await_true(lambda: deployments() != [], otherwise=log.read_text)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(COMMAND_SECONDS)
    stack.pulumi("cancel", "--yes", "--stack", "test")
    made = deployments()

    cancelled = start()
    await_true(is_awaited, otherwise=log.read_text)
    cancelled.send_signal(signal.SIGINT)
    cancelled.wait(COMMAND_SECONDS)
    assert "cancelled while waiting for Deployment" in log.read_text()
    assert deployments() == made

    stack.up("stuck", namespace=namespace, replicas=0)
    assert deployments() == made
    stack.destroy()
    assert deployments() == []


def test_a_destroy_that_is_held_back_names_the_finalizer(
    stack: Stack, core: Api, namespace: str
) -> None:
    stack.up("pinned", namespace=namespace, seconds=2)
    refusal = stack.refused("destroy", program="")
    assert f"ConfigMap {namespace}/pinned still exists 2 s after" in refusal
    assert "ConfigMap pinned is held by the finalizer example.com/hold" in refusal
    assert f"kubectl --namespace {namespace} patch configmap pinned" in refusal

    core.patch_namespaced_config_map("pinned", namespace, {"metadata": {"finalizers": None}})
    stack.destroy()


def _has_namespace(core: Api, name: str) -> bool:
    return name in {each.metadata.name for each in core.list_namespace().items}


def test_a_namespace_that_is_held_back_names_what_is_in_it(stack: Stack, core: Api) -> None:
    home = f"home-{secrets.token_hex(4)}"
    stack.up("held_home", namespace=home, seconds=3)
    held = {"metadata": {"name": "other", "finalizers": ["example.com/hold"]}}
    core.create_namespaced_config_map(home, held)
    refusal = stack.refused("destroy", program="")
    assert f"Namespace {home} still exists 3 s after" in refusal
    assert "ConfigMap other is held by the finalizer example.com/hold" in refusal

    core.patch_namespaced_config_map("other", home, {"metadata": {"finalizers": None}})
    # The API server looks after it every few seconds, and the program gives it no more than 3.
    await_true(lambda: not _has_namespace(core, home))
    stack.destroy()


def test_secrets_are_in_no_file_and_no_output(stack: Stack, namespace: str) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    said = stack.up("confidential", namespace=namespace, canary=canary)
    said_again = stack.refresh()
    refusal = stack.refused("preview", program="refusing", namespace=namespace, canary=f"{canary}!")

    everything = [said.text, said_again.text, refusal, str(stack.export())]
    state = [path for path in (stack.directory / "state").rglob("*") if path.is_file()]
    assert state
    everything += [path.read_text(errors="replace") for path in state]
    assert "a valid label must be" in refusal
    assert not [text for text in everything if canary in text]
    assert stack.output("data").keys() == {"password"}


def test_a_crd_and_its_resource_are_made_in_one_program(stack: Stack) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    stack.preview("custom", group=group, size=1)
    assert stack.up("custom", group=group, size=1).changes["create"] == 4
    assert stack.up("custom", group=group, size=1).changes == {}
    changed = stack.up("custom", group=group, size=2)
    assert changed.diff("box") == {"spec.size": "update"}
    stack.destroy()


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("patch", ["kubernetes:core/v1:NamespacePatch", "manage the whole object"]),
        ("component", ["kubernetes:yaml/v2:ConfigGroup", "pulumi_kubernetes.yaml.ConfigFile"]),
        ("settings", ["renderYamlToDirectory", "enableServerSideApply: false"]),
    ],
)
def test_what_is_not_served_is_refused_by_name(stack: Stack, what: str, named: list[str]) -> None:
    refusal = stack.refused("preview", program="unserved", what=what)
    assert [text for text in named if text not in refusal] == []
    assert "install the real plugin" in refusal


def test_objects_of_a_lost_cluster_can_be_dropped(stack: Stack, core: Api, namespace: str) -> None:
    stack.up("moved", namespace=namespace, server=None)
    lost = stack.run("up", program="moved", namespace=namespace, server="https://127.0.0.1:1")
    assert "configured Kubernetes cluster is unreachable" in lost.text

    refusal = stack.refused("destroy", program="")
    assert "PULUMI_K8S_DELETE_UNREACHABLE=true" in refusal

    environment = {**stack.environment(), "PULUMI_K8S_DELETE_UNREACHABLE": "true"}
    outcome = stack.attempt("destroy", environment=environment)
    assert outcome.code == 0, str(outcome)
    core.delete_namespaced_config_map("left", namespace)


def test_a_second_up_and_a_refresh_change_nothing_for_any_kind(stack: Stack) -> None:
    own = f"standin-{secrets.token_hex(4)}"
    stack.up("every_kind", namespace=own)
    assert stack.output("found") == "https"
    assert stack.up("every_kind", namespace=own).changes == {}
    assert stack.refresh().changes == {}
    assert stack.up("every_kind", namespace=own).changes == {}
    stack.destroy()
