"""What a person sees of a stack that is not up: of every kind, and of one that cannot be."""

import re

import pytest

from tests.engine import checkpoint
from tests.engine.stack import LiveStack

_NO_ENGINE = "DOCKER_HOST=unix:///nowhere KIND_EXPERIMENTAL_PROVIDER=docker"
_COST = "what the stack requests, and what it costs per hour:"
_STUB = "Azure is not contacted: the azure-native plugin is not installed"


@pytest.mark.parametrize(
    ("stack", "cluster", "told", "last"),
    [
        ("kind", "slipway:clusters:Kind", "needs 4 pods", "`up` will fail without this"),
        ("azure", "azure-native:containerservice:ManagedCluster", _STUB, _COST),
    ],
)
def test_a_preview_shows_the_whole_stack_and_makes_nothing(
    stack: str, cluster: str, told: str, last: str, idle_stack: LiveStack
) -> None:
    """With no account and no container engine; other kinds: tests/program and tests/local."""
    # So no container engine answers, where there is one, too.
    shown = idle_stack.run(f"{_NO_ENGINE} make preview STACK={stack}").text
    assert re.search(f" {cluster} .* create", shown), shown
    assert re.search(r"slipway:jobs:PyTorchJob mnist-\w+ create", shown), shown
    assert told in shown, shown
    assert last in re.split(r"\+ \d+ to create", shown)[1], shown
    assert checkpoint.resources(idle_stack.backend, stack) == []


def test_a_cluster_that_cannot_be_created_gives_its_own_reason(idle_stack: LiveStack) -> None:
    try:
        failed = idle_stack.attempt(f"{_NO_ENGINE} make up STACK=kind")
        assert failed.code != 0, failed
        told = failed.text[failed.text.rindex("Diagnostics:") :]
        first, last = re.findall(r"^ +error: (.*)$", told, re.MULTILINE)
        assert {first, last} == {
            "kind's cluster slipway-kind requires:",
            "nothing was changed in the cluster, because it is not ready",
        }, failed
        assert "docker" in told
    finally:
        idle_stack.run("make down STACK=kind")


def test_bad_settings_are_all_named_at_once_and_nothing_is_made(idle_stack: LiveStack) -> None:
    wrong = "{'slipway:cluster': {kind: embeded, colour: red}, 'slipway:jobs': {mnist-glo: {}}}"
    (idle_stack.scratch.checkout / "Pulumi.wrong.yaml").write_text(f"config: {wrong}\n")
    finished = idle_stack.attempt("make up STACK=wrong")
    assert finished.code != 0
    lines = finished.text.splitlines()
    for words in (
        ("slipway:cluster.kind", "embeded", "did you mean", "embedded"),
        ("slipway:cluster.colour",),
        ("slipway:jobs.mnist-glo:", "did you mean", "mnist-gloo"),
    ):
        assert any(all(word in line for word in words) for line in lines), (words, finished)
    below = finished.text[finished.text.index("Diagnostics:") :]
    assert below.count(" error: ") == 1, finished
    assert not idle_stack.cluster.parent.exists()
    smoke = idle_stack.attempt("make smoke STACK=nowhere")
    assert smoke.code != 0
    assert "nowhere" in smoke.text, smoke


def test_make_preview_shows_every_job_before_there_is_a_cluster(idle_stack: LiveStack) -> None:
    """Its needs, and the complete PyTorchJob of the one that is asked for."""
    said = idle_stack.run("make preview JOB=mnist-gloo").output
    assert "needs 4 pods with 1.6 cores, 3 GiB in total; runs for at most 24 h; not val" in said
    assert re.search(r"the cluster has 1 node with [\d.]+ cores, [\d.]+ GiB for jobs", said)
    shown = said[said.index("apiVersion: kubeflow.org/v1") :]
    for words in ("kind: PyTorchJob", "slipway_trainer.mnist", "image: localhost/slipway-trainer:"):
        assert words in shown
    assert not idle_stack.cluster.exists()
