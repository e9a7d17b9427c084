"""`slipway:index:Training` declares what this repository's program does, below itself."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from core import declare as declaring
from infra.provider.engine import wrap, wrap_map
from tests.program.declared import PLAIN, Program, constructed, declare, manifest, secret

TRAINING = "slipway:index:Training"
MINE = {"script": PLAIN, "cpu": "100m", "env": {"T": {"config": "token"}}}
SETTINGS: Mapping[str, Any] = {
    "cluster": {"kind": "embedded", "name": "here"},
    "jobs": {"mnist-gloo": {"cpu": "100m", "was": ["digits"]}, "mine": MINE},
}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The engine's mark of an unknown value."""


def construct(settings: Mapping[str, Any], *, dry_run: bool = False, **more: Any) -> Program:
    inputs = {**wrap_map(settings), **more}
    return constructed("training", inputs, "dev", dry_run=dry_run)


@pytest.fixture(scope="module")
def component() -> Program:
    return construct(SETTINGS, secrets=wrap({"token": "hidden"}, secret=True))


def test_its_manifests_are_those_of_this_repositorys_program(
    component: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A component declares what this repository's program does, in Python and YAML."""
    program = declare(SETTINGS, monkeypatch, {"slipway:token": "hidden"})
    found = {run.name: manifest(run) for run in component.of("PyTorchJob")}
    expected = {f"training-{run.name}": manifest(run) for run in program.of("PyTorchJob")}
    assert found == expected
    ours, theirs = (sorted(each.type for each in it.resources) for it in (component, program))
    assert ours == sorted([TRAINING, *(each for each in theirs if each != "pulumi:pulumi:Stack")])


def test_all_of_it_is_below_the_component_and_called_after_it(component: Program) -> None:
    """A renamed job was called after it, too, or it would be trained again."""
    top = component.one(TRAINING, "training")
    by_urn = {each.urn: each for each in component.resources}
    for each in component.resources:
        above = each
        while above.parent:
            above = by_urn[above.parent]
        assert above == top
        assert each == top or each.name.startswith("training-")
    aliases = component.one("PyTorchJob", "training-mnist-gloo").request.aliases
    assert [each.spec.name for each in aliases] == ["training-digits"]


def test_the_outputs_are_a_stacks_and_secrets_are_nowhere_else(component: Program) -> None:
    outputs = component.outputs
    assert outputs.keys() == {"jobs", "cluster", "kubeconfig", "skipped", "notRun"}
    assert outputs["jobs"]["mine"]["accuracy"] == 0.98
    assert outputs["kubeconfig"] == secret("a kubeconfig")
    (own,) = [each for each in component.of("Secret") if "mine" in each.name]
    assert own.inputs["data"] == secret({"T": base64.b64encode(b"hidden").decode()})
    others = [each.inputs for each in component.resources if each != own]
    assert "hidden" not in json.dumps([*others, outputs])


def test_a_webhook_is_a_secret_of_each_run_and_knows_the_component_as_its_stack() -> None:
    notify = {"url": {"config": "hook"}, "form": "slack"}
    secrets = wrap({"token": "a token", "hook": "hidden"}, secret=True)
    program = construct({**SETTINGS, "notify": notify}, secrets=secrets)
    hook = {"url": "hidden", "on": ["failed", "succeeded"], "form": "slack"}
    for run in program.of("PyTorchJob"):
        assert run.inputs.pop("hook") == secret({**hook, "stack": "dev-training"})
    everything = [each.inputs for each in program.resources]
    assert "hidden" not in json.dumps([*everything, program.outputs])


def test_all_that_is_wrong_is_reported_at_once_by_the_inputs_that_it_is_in() -> None:
    jobs = {"mine": {"script": "nowhere.py", "wrokers": 1}, "other": MINE}
    with pytest.raises(pulumi.RunError) as raised:
        construct({"cluster": {"kind": "embeded"}, "jobs": jobs, "job": {}})
    text = str(raised.value)
    for line in (
        'cluster.kind: "embeded" is not a cluster kind',
        'jobs.mine.wrokers: there is no such key; did you mean "workers"?',
        'jobs.other.env.T.config: the configuration does not contain "token"; pass it in `secrets`',
        "job: there is no such key",
    ):
        assert f"\n  {line}" in text
    assert text.endswith(f"Correct the inputs of {TRAINING} training and run the command again.")


def test_a_secret_where_it_would_be_stored_in_plain_text_is_refused_without_its_value() -> None:
    env = wrap({}).with_value({"T": wrap("hidden", secret=True)})
    mine = wrap({}).with_value({"script": wrap(PLAIN), "env": env})
    with pytest.raises(pulumi.RunError) as raised:
        construct({"cluster": SETTINGS["cluster"]}, jobs=wrap({}).with_value({"mine": mine}))
    assert "jobs.mine.env.T: is a secret, which would be stored unencrypted" in str(raised.value)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "secrets"),
    [(UNKNOWN, UNKNOWN), ({"clusters": UNKNOWN}, {"token": UNKNOWN, "hook": UNKNOWN})],
    ids=["nothing known", "keys known"],
)
def test_a_cluster_still_to_be_made_is_previewed_as_it_will_be(content: Any, secrets: Any) -> None:
    images = {name: f"example.org/{name}:1" for name in ("trainer", "trainingOperator", "tcpWait")}
    cluster = {"kind": "kubeconfig", "kubeconfig": content, "images": images}
    settings = {**SETTINGS, "cluster": cluster, "notify": {"url": {"config": "hook"}}}
    program = construct(settings, dry_run=True, secrets=wrap(secrets, secret=True))
    assert program.names("PyTorchJob") == ["training-mine", "training-mnist-gloo"]
    mine = program.one("PyTorchJob", "training-mine")
    assert mine.inputs["kubeconfig"] == secret(UNKNOWN)
    assert program.one("OperatorReady").inputs["deployment"] == "training-operator"


def test_a_preview_of_unknown_settings_declares_nothing(caplog: pytest.LogCaptureFixture) -> None:
    jobs = {"mine": {"script": PLAIN, "args": ["--data", UNKNOWN]}}
    program = construct({**SETTINGS, "jobs": jobs}, dry_run=True)
    assert [each.type for each in program.resources] == [TRAINING]
    assert program.outputs["jobs"] == UNKNOWN
    assert "jobs.mine.args[1]: not known until" in caplog.text
    assert "deleted stays. If that is protected, run `pulumi up --skip-preview`" in caplog.text


@pytest.mark.parametrize(
    ("place", "inputs"),
    [
        ("jobs.mine.args[0]", {"jobs": {"mine": {"script": PLAIN, "args": [UNKNOWN]}}}),
        ("cluster.kubeconfig", {"cluster": {"kind": "kubeconfig", "kubeconfig": UNKNOWN}}),
        ("secrets.token", {"secrets": {"token": UNKNOWN}}),
    ],
)
def test_an_update_that_does_not_know_an_input_ends_before_it_deletes_anything(
    place: str, inputs: Mapping[str, Any], made: list[str]
) -> None:
    """A component without children would be a success, after which the engine deletes them all."""
    with pytest.raises(pulumi.RunError, match=re.escape(f"{place}: unknown, as what provides it")):
        construct({**SETTINGS, **inputs})
    assert made == []


def test_what_a_component_cannot_go_on_without_is_raised_and_ends_no_process() -> None:
    """The provider's process serves the rest of the program."""
    with pytest.raises(pulumi.RunError, match="not ready"):
        declaring.end("the cluster is not ready")
