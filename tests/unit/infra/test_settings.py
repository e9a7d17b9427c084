"""A stack's configuration becomes values, or is told everything that is wrong with it."""

import json
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from clusters.nodes import Capacity
from images.build.releases import chosen
from infra.settings import SettingsError, StackSettings, parse
from jobs.config import CATALOG

EMBEDDED = {"kind": "embedded"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cluster's room be that of a machine with 2 cores and 6 GiB, whatever this one has."""
    room = Capacity(Decimal("1.94"), 5 * 2**30, 0, 1)
    monkeypatch.setattr("clusters.embedded.cluster.capacity", lambda _settings: room)


def configured(cluster: Any = None, jobs: Any = None, **others: str) -> dict[str, str]:
    """Return a configuration as the engine hands it over: each map as JSON."""
    sections = {
        "slipway:cluster": json.dumps(EMBEDDED if cluster is None else cluster),
        "slipway:jobs": json.dumps({} if jobs is None else jobs),
    }
    return sections | {f"slipway:{name}": value for name, value in others.items()}


def problems(config: dict[str, str], secrets: Collection[str] = ()) -> dict[str, str]:
    """Return what is wrong, by key."""
    with pytest.raises(SettingsError) as caught:
        parse(config, "dev", secrets)
    found = {problem.key: problem.text for problem in caught.value.problems}
    assert len(found) == len(caught.value.problems), "a key is named twice"
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)
    return found


def test_a_catalogue_job_comes_as_it_is_and_the_cluster_is_named_after_the_stack() -> None:
    settings = parse(configured(jobs={"mnist-gloo": {}}), "dev")
    assert isinstance(settings, StackSettings)
    assert settings.jobs == [CATALOG["mnist-gloo"]]
    assert settings.cluster.kind == "embedded"
    assert settings.cluster.options.name == "dev"
    assert parse(configured({**EMBEDDED, "name": "mine"}), "dev").cluster.options.name == "mine"


def test_jobs_keep_the_order_of_the_configuration() -> None:
    own = {"image": "example.org/own:1", "command": ["true"]}
    settings = parse(configured(jobs={"z": own, "mnist-gloo": {"epochs": 2}, "a": own}), "dev")
    assert [job.name for job in settings.jobs] == ["z", "mnist-gloo", "a"]
    assert settings.jobs[1].epochs == 2


def test_a_stack_may_have_no_jobs() -> None:
    assert parse({"slipway:cluster": json.dumps(EMBEDDED)}, "dev").jobs == []


def test_other_projects_keys_are_left_alone() -> None:
    parse({**configured(), "pulumi:tags": "x", "kubernetes:context": "y"}, "dev", ["aws:token"])


@pytest.mark.parametrize(
    ("cluster", "key", "words"),
    [
        ({}, "slipway:cluster.kind", ["is missing", "embedded"]),
        ({"kind": None}, "slipway:cluster.kind", ["is missing", "embedded"]),
        ({"kind": "embeded"}, "slipway:cluster.kind", ['"embeded"', 'did you mean "embedded"?']),
        ({"kind": "gke"}, "slipway:cluster.kind", ['"gke"', "allowed:", "embedded"]),
        ({"kind": ["embedded"]}, "slipway:cluster.kind", ['["embedded"]']),
        ({"kind": 1}, "slipway:cluster.kind", ["1 is not a cluster kind"]),
        ([], "slipway:cluster", ["[] is not allowed", "a map"]),
    ],
)
def test_a_mistake_in_a_cluster_is_one_problem(cluster: Any, key: str, words: list[str]) -> None:
    found = problems(configured(cluster))
    assert [*found] == [key]
    for word in words:
        assert word in found[key]


@pytest.mark.parametrize(
    ("stack", "config", "message"),
    [
        ("kind", {"kubernetes:context": "y"}, "`cp stacks/kind.yaml Pulumi.kind.yaml`"),
        ("mine", {}, "slipway:cluster.kind: is missing; allowed: aks"),
        ("dev", configured(job="{}"), 'slipway:job: there is no such key; did you mean "jobs"?'),
    ],
)
def test_what_is_missing_or_misspelt_is_reported_with_what_to_do(
    stack: str, config: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(config, stack)
    assert message in str(caught.value)


def test_a_misspelt_kind_is_reported_beside_the_missing_one() -> None:
    found = problems(configured({"knd": "embedded"}))
    assert found.keys() == {"slipway:cluster.kind", "slipway:cluster.knd"}
    assert 'did you mean "kind"?' in found["slipway:cluster.knd"]


def test_a_section_that_is_missing_or_no_map_is_reported() -> None:
    # The user's settings are not to be overwritten by the repository's.
    (text,) = problems({"slipway:jobs": json.dumps({"mnist-gloo": {}})}).values()
    assert text == "is missing; copy it from stacks/dev.yaml"
    found = problems({"slipway:cluster": "embedded", "slipway:jobs": "mnist-gloo"})
    texts = {"cluster": "embedded", "jobs": "mnist-gloo"}
    told = "is not allowed; it must be a map"
    assert found == {f"slipway:{key}": f'"{text}" {told}' for key, text in texts.items()}


def test_more_than_the_machine_could_ever_hold_is_refused_with_the_numbers() -> None:
    found = problems(configured(jobs={"mnist-gloo": {"workers": 9}}))
    text = found["slipway:jobs.mnist-gloo"]
    assert "10 x 400m cores, 768Mi" in text
    assert "in total 4 cores and 7.5 GiB" in text
    assert "1 node with 1.94 cores, 5 GiB" in text


_AKS = {"kind": "aks", "location": "westeurope", "api": {"private": True}, "budget": False,
        "subscription": "00000000-0000-0000-0000-000000000000"}  # fmt: skip


def test_the_stack_chooses_the_torch_of_jobs_that_ask_for_none() -> None:
    assert parse(configured(jobs={"mnist-gloo": {}}, torch="2.6"), "dev").torch == "2.6"
    found = problems(configured(torch="2.14.1", jobs={"mnist-gloo": {"torch": "2.14.1"}}))
    for key in ("slipway:torch", "slipway:jobs.mnist-gloo.torch"):
        assert "it must be one of " in found[key]
        assert found[key].endswith("Did you mean 2.14?")


def test_a_stack_allows_commands_in_pods_only_where_it_says_so() -> None:
    assert not parse(configured(jobs={}), "dev").exec
    assert parse(configured(jobs={}, exec="true"), "dev").exec
    found = problems(configured(jobs={}, exec="yes"))
    assert found["slipway:exec"] == '"yes" is not allowed; it must be true or false'


def test_a_stacks_torch_that_is_there_for_gpus_alone_is_not_that_of_a_job_without_them() -> None:
    parse(configured(jobs={"mnist-gloo": {}}, torch="2.10"), "dev")
    assert chosen(None, gpus=False, stack="2.10") == chosen(None, gpus=False)
    assert chosen(None, gpus=True, stack="2.10").torch == "2.10"
    assert chosen("2.6", gpus=True, stack="2.10").torch == "2.6"


def test_a_version_of_torch_may_stand_without_quotes_where_that_is_no_other_number() -> None:
    settings = parse(configured(jobs={"mnist-gloo": {"torch": 2.14}}), "dev")
    assert settings.jobs[0].torch == "2.14"
    for wrong in (2.10, [2, 14], {"2": 14}, "2.14.1"):
        found = problems(configured(jobs={"mnist-gloo": {"torch": wrong}}))
        assert "in quotes" in found["slipway:jobs.mnist-gloo.torch"]


def test_an_unknown_size_is_the_only_problem_reported() -> None:
    stack = {**_AKS, "gpu": {"size": "Standard_NC36ads_A10_v4"}}
    found = problems(configured(stack, {"mnist-nccl": {"torch": "2.10"}}))
    assert [*found] == ["slipway:cluster.gpu.gpusPerNode"]


@pytest.mark.parametrize("program", [{"image": "example.org/own:1", "command": ["true"]}, "build"])
def test_an_image_without_torch_takes_no_version_of_it(program: Any, tmp_path: Path) -> None:
    if program == "build":
        (tmp_path / "Dockerfile").write_text("FROM example.org/own:1\n")
        program = {"build": {"context": str(tmp_path)}}
    found = problems(configured(jobs={"mine": {**program, "torch": "2.6"}}))
    assert "its version of torch" in found["slipway:jobs.mine.torch"]


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ({"size": "Standard_NC128ds_xl_RTXPRO6000BSE_v6"}, None),
        ({"size": "Standard_NV36ads_A10_v5"}, "the GPUs' driver supports only 12"),
        ({"size": "Standard_NV36ads_A10_v5", "driver": "gpu-operator", "minNodes": 1}, None),
        ({"size": "Standard_NC6s_v3", "gpusPerNode": 1}, "(sm_70)"),
    ],
)
def test_a_torch_without_the_gpus_kernels_is_refused(gpu: dict[str, Any], why: str | None) -> None:
    stack = {**_AKS, "gpu": gpu}
    if why is None:
        parse(configured(stack, {"mnist-nccl": {}}), "azure")
    else:
        text = problems(configured(stack, {"mnist-nccl": {}}))["slipway:jobs.mnist-nccl.torch"]
        assert why in text
        assert 'use "2.10"' in text
    parse(configured(stack, {"mnist-nccl": {"torch": "2.10"}}), "azure")


def test_a_secret_is_refused_since_a_job_would_show_it() -> None:
    found = problems(configured(jobs={"mnist-gloo": {}}), ["slipway:jobs"])
    assert "secret" in found["slipway:jobs"]
    assert "TOKEN: {config: hfToken}" in found["slipway:jobs"]


SET_TOKEN = "--stack dev --secret slipway:hfToken`"


def _with_secret(name: str, *, job: str = "mnist-gloo") -> dict[str, Any]:
    return {job: {"env": {"TOKEN": {"config": name}}}}


def test_a_secret_that_a_job_names_is_kept_apart_from_the_job_and_is_not_shown() -> None:
    config = configured(jobs=_with_secret("hfToken"), hfToken="hidden")
    settings = parse(config, "dev", ["slipway:hfToken"])
    assert settings.secrets == {"hfToken": "hidden"}
    assert "hidden" not in repr(settings)
    # One that no job names is left alone.
    assert parse(configured(hfToken="hidden"), "dev", ["slipway:hfToken"]).secrets == {}


@pytest.mark.parametrize(
    ("name", "others", "words"),
    [
        ("hfToken", {}, ["does not contain", f"`pulumi config set {SET_TOKEN}"]),
        ("hfToken", {"hfToken": "hidden"}, ["unencrypted", SET_TOKEN]),
        ("jobs", {}, ["one of Slipway's keys"]),
    ],
)
def test_an_unset_secret_is_refused_with_the_command_that_sets_it(
    name: str, others: dict[str, str], words: list[str]
) -> None:
    """A key that is missing or not encrypted is refused with the command to type."""
    found = problems(configured(jobs=_with_secret(name), **others))
    assert [*found] == ["slipway:jobs.mnist-gloo.env.TOKEN.config"]
    (text,) = found.values()
    assert "hidden" not in text
    for word in words:
        assert word in text


_HOOK, _KEY = "https://example.org/hooks/hidden", "also hidden"


def test_a_webhook_gets_the_secrets_that_its_settings_name_and_neither_is_shown() -> None:
    notify = {"url": {"config": "hook"}, "key": {"config": "hookKey"}, "on": ["failed"]}
    config = configured(notify=json.dumps(notify), hook=_HOOK, hookKey=_KEY)
    settings = parse(config, "dev", ["slipway:hook", "slipway:hookKey"])
    assert settings.hook == {
        "url": _HOOK, "key": _KEY, "on": ("failed",), "form": "plain", "stack": "dev",
    }  # fmt: skip
    assert "hidden" not in repr(settings)
    brief = configured(notify=json.dumps({"url": {"config": "hook"}}), hook=_HOOK)
    ends = ("failed", "succeeded")
    assert parse(brief, "dev", ["slipway:hook"]).hook == {
        "url": _HOOK, "on": ends, "form": "plain", "stack": "dev",
    }  # fmt: skip
    assert parse(configured(), "dev").hook == {}


def test_a_webhooks_secrets_in_plain_text_are_refused_and_not_repeated() -> None:
    notify = {"url": _HOOK, "key": _KEY, "on": ["suceeded"], "form": "discord"}
    found = problems(configured(notify=json.dumps(notify)))
    only = (
        "its value is not allowed; it must be {config: hook}, which refers to a value set by "
        "`pulumi config set --secret hook`"
    )
    assert found == {
        "slipway:notify.url": only,
        "slipway:notify.key": only,
        "slipway:notify.on[0]": '"suceeded" is not allowed; it must be one of failed, succeeded',
        "slipway:notify.form": '"discord" is not allowed; it must be one of plain, slack, teams',
    }


@pytest.mark.parametrize(
    ("notify", "places"),
    [
        ({}, {"slipway:notify.url": "is missing"}),
        ({"url": {}}, {"slipway:notify.url": "its value is not allowed"}),
        ({"url": {"secret": "a", "key": "b"}}, dict.fromkeys(
            ("slipway:notify.url.secret", "slipway:notify.url.key"), "is not allowed"
        )),
        ({"url": {"config": "nowhere"}}, {"slipway:notify.url.config": 'contain "nowhere"'}),
        (
            {"url": {"config": "hook"}, "key": {"config": "jobs"}},
            {
                "slipway:notify.url.config": "is stored unencrypted in the configuration",
                "slipway:notify.key.config": "is one of Slipway's keys",
            },
        ),
    ],
)  # fmt: skip
def test_a_webhooks_problems_name_keys(notify: dict[str, Any], places: dict[str, str]) -> None:
    found = problems(configured(notify=json.dumps(notify), hook=_HOOK), ["slipway:another"])
    found.pop("slipway:hook", None)  # which nothing reads where no url names it
    assert found.keys() == places.keys()
    for place, words in places.items():
        assert words in found[place]
        assert "hidden" not in found[place]


def test_all_problems_are_reported_together() -> None:
    jobs = {
        "mnist-glo": {},
        "mnist-gloo": {"workers": -1, "epochs": 1.5, "wrokers": 2},
        "Not_A_Name": {"image": "example.org/own:1", "command": ["true"]},
    }
    found = problems(configured({"kind": "embeded", "colour": "red"}, jobs, clutser="{}"))
    gloo = [f"mnist-gloo.{key}" for key in ("workers", "epochs", "wrokers")]
    assert found.keys() == {
        *("slipway:clutser", "slipway:cluster.kind", "slipway:cluster.colour"),
        *(f"slipway:jobs.{name}" for name in ("mnist-glo", *gloo, "Not_A_Name")),
    }


@pytest.mark.parametrize(
    ("cluster", "missing", "contradictory"),
    [
        (
            {"kind": "aks", "idleMinutes": 0, "system": {"size": "Standard_NC4as_T4_v3"}},
            {"subscription", "location", "budget", "api", "idleMinutes"},
            "system.size",
        ),
        (
            {"kind": "azure-stack", "controlPlane": {"size": "Standard_NC4_A2"}},
            {"subscription", "location", "customLocation", "logicalNetwork", "sshKey", "registry"},
            "controlPlane.size",
        ),
    ],
)
def test_contradictions_are_reported_beside_missing_values(
    cluster: dict[str, Any], missing: set[str], contradictory: str
) -> None:
    found = problems(configured(cluster))
    told = {key.removeprefix("slipway:cluster.") for key in found}
    assert missing <= told
    assert contradictory in told, found


def test_the_message_counts_the_problems_and_says_what_to_do() -> None:
    with pytest.raises(SettingsError) as caught:
        parse(configured({"kind": "x"}, {"y": {}}), "dev")
    text = str(caught.value)
    assert text.startswith("2 problems in the configuration, so nothing was changed:\n")
    assert "Pulumi.dev.yaml" in text
    assert text.endswith("Correct Pulumi.dev.yaml and run the command again.")
