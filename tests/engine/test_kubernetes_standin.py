"""The stand-in plugin under ordinary programs: the real engine, a real API server.

What it makes of single objects is shown without the CLI in test_standin_objects.py.
"""

import base64
import json
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from core import toolchain
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.standin_stack import Stack

# The client takes a dict wherever it takes an object, but its types don't say so.
Api = Any


@pytest.fixture
def stack(tmp_path: Path, root: Path, kubeconfig: str) -> Iterator[Stack]:
    """A stack with nothing in it; what a test leaves in it is deleted."""
    made = Stack(tmp_path, root, kubeconfig)
    yield made
    leave(made)


@pytest.fixture(scope="module")
def home() -> str:
    """The namespace of the program `life`."""
    return f"standin-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def living(
    home: str, tmp_path_factory: pytest.TempPathFactory, root: Path, kubeconfig: str
) -> Iterator[Stack]:
    """The program `life`, which is up; its last test destroys it."""
    made = Stack(tmp_path_factory.mktemp("living"), root, kubeconfig)
    try:
        assert made.up("life", namespace=home).changes["create"] == 5
        yield made
    finally:
        leave(made)


def leave(stack: Stack) -> None:
    """Delete what is left in a stack."""
    if stack.resources:
        stack.unlock()
        stack.attempt("destroy", environment=stack.environment())


def _config_map(core: Api, name: str, namespace: str) -> Any:
    return core.read_namespaced_config_map(name, namespace)


def test_a_refresh_sees_drift_and_the_next_up_repairs_it(
    living: Stack, core: Api, apps: Api, home: str
) -> None:
    core.patch_namespaced_config_map(
        "named",
        home,
        {"metadata": {"labels": {"team": None, "example.com/team": "x", "other": "theirs"}}},
        field_manager="kubectl-edit",
    )
    apps.delete_namespaced_deployment("web", home)

    assert living.refresh().changes == {"update": 1, "delete": 1}
    repaired = living.up("life", namespace=home)

    assert repaired.changes == {"update": 1, "create": 1}
    assert repaired.diff("named") == {
        'metadata.labels["example.com/team"]': "update",
        "metadata.labels.team": "add",
    }
    labels = _config_map(core, "named", home).metadata.labels
    assert labels == {"team": "a", "example.com/team": "a", "other": "theirs"}


def test_a_program_lives_from_create_to_destroy(living: Stack, core: Api, home: str) -> None:
    first = _config_map(core, "named", home).metadata.uid
    updated = living.up("life", namespace=home, team="b")
    assert updated.changes == {"update": 2}
    assert updated.diff("named") == {
        'metadata.labels["example.com/team"]': "update",
        "metadata.labels.team": "update",
    }
    assert _config_map(core, "named", home).metadata.labels["team"] == "b"

    shown = living.preview("life", namespace=home, team="b", content="2")
    assert shown.diff("named") == {"data.content": "update-replace"}
    replaced = living.up("life", namespace=home, team="b", content="2")
    assert replaced.changes == {"replace": 1}
    assert _config_map(core, "named", home).metadata.uid != first

    forced = living.up(
        "life", namespace=home, team="c", content="2", replace_on="metadata.labels.team"
    )
    assert forced.changes == {"replace": 1, "update": 1}

    living.destroy()
    with pytest.raises(client.ApiException, match="404"):
        core.read_namespace(home)


def test_a_wait_ends_with_ctrl_c_and_a_killed_run_is_taken_up_again(
    stack: Stack, core: Api, namespace: str
) -> None:
    # An object of the same name that does not go.
    hold = {"metadata": {"name": "pinned", "finalizers": ["example.com/hold"]}}
    core.create_namespaced_config_map(namespace, hold)
    core.delete_namespaced_config_map("pinned", namespace)
    log = stack.directory / "up.log"

    def start() -> subprocess.Popen[bytes]:
        command = ["up", "--yes", "--skip-preview", "--non-interactive", "--color", "never"]
        with log.open("wb") as opened:
            return subprocess.Popen(
                [str(toolchain.path("pulumi")), *command],
                cwd=stack.directory,
                env=stack.environment("pinned", namespace=namespace),
                stdout=opened,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def is_awaited() -> bool:
        pattern = r"core/v1:ConfigMap \S+ creating \(\d+s\) waiting for the deletion"
        return re.search(pattern, log.read_text()) is not None

    killed = start()
    await_true(is_awaited, otherwise=log.read_text)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(COMMAND_SECONDS)
    stack.unlock()

    cancelled = start()
    await_true(is_awaited, otherwise=log.read_text)
    cancelled.send_signal(signal.SIGINT)
    cancelled.wait(COMMAND_SECONDS)
    assert "interrupted while waiting for the deletion of ConfigMap" in log.read_text()

    core.patch_namespaced_config_map("pinned", namespace, {"metadata": {"finalizers": None}})
    stack.up("pinned", namespace=namespace)
    core.patch_namespaced_config_map("pinned", namespace, {"metadata": {"finalizers": None}})
    stack.destroy()


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


def test_secrets_are_in_no_file_and_no_output(stack: Stack, namespace: str) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    said = stack.up("confidential", namespace=namespace, canary=canary)
    said_again = stack.refresh()
    everything = [said.text, said_again.text]
    state = [path for path in (stack.directory / "state").rglob("*") if path.is_file()]
    assert state
    everything += [path.read_text(errors="replace") for path in state]
    encoded = base64.b64encode(canary.encode()).decode()
    assert not [text for text in everything if canary in text or encoded in text]
    shown = stack.pulumi("stack", "output", "data", "--json", "--show-secrets")
    assert json.loads(shown.text).keys() == {"password"}


def test_what_is_not_served_is_refused_by_name(stack: Stack) -> None:
    refusal = stack.refused("preview", program="unserved")
    assert "kubernetes:core/v1:NamespacePatch" in refusal
    assert "install the real plugin" in refusal


def test_a_second_up_and_a_refresh_change_nothing_for_any_kind(stack: Stack, api: Api) -> None:
    own, group = f"standin-{secrets.token_hex(4)}", f"g{secrets.token_hex(4)}.example.com"
    stack.preview("every_kind", namespace=own, group=group, size=1)
    stack.up("every_kind", namespace=own, group=group, size=1)
    webhook = {"webhooks": [{"name": "nothing.example.com", "clientConfig": {"caBundle": "Cg=="}}]}
    registration: Api = client.AdmissionregistrationV1Api(api)
    registration.patch_validating_webhook_configuration(own, webhook)

    changed = stack.up("every_kind", namespace=own, group=group, size=2)
    assert changed.changes == {"update": 2}
    assert changed.diff("webhook") == {"webhooks[0].timeoutSeconds": "update"}
    assert changed.diff("deployment") == {"spec.revisionHistoryLimit": "update"}
    assert stack.refresh().changes == {}
    assert stack.up("every_kind", namespace=own, group=group, size=2).changes == {}
    (left,) = registration.read_validating_webhook_configuration(own).webhooks
    assert left.client_config.ca_bundle == "Cg=="
    stack.destroy()
