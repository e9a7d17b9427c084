"""A stack's configuration becomes values, or is told everything that is wrong with it."""

import json
import re
from collections.abc import Collection
from decimal import Decimal
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


_AKS = {"kind": "aks", "location": "westeurope", "api": {"private": True}, "budget": False,
        "subscription": "00000000-0000-0000-0000-000000000000"}  # fmt: skip
_HOOK, _KEY = "https://example.org/hooks/hidden", "also hidden"
OWN = {"image": "example.org/own:1", "command": ["true"]}


def configured(cluster: Any = None, jobs: Any = None, **others: str) -> dict[str, str]:
    """Return a configuration as the engine hands it over: each map as JSON."""
    sections = {
        "slipway:cluster": json.dumps(EMBEDDED if cluster is None else cluster),
        "slipway:jobs": json.dumps({} if jobs is None else jobs),
    }
    return sections | {f"slipway:{name}": value for name, value in others.items()}


def problems(config: dict[str, str], secrets: Collection[str] = ()) -> dict[str, str]:
    """Return what is wrong, by key below `slipway:`."""
    with pytest.raises(SettingsError) as caught:
        parse(config, "dev", secrets)
    found = {each.key.removeprefix("slipway:"): each.text for each in caught.value.problems}
    assert len(found) == len(caught.value.problems), "a key is named twice"
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)
    return found


def test_jobs_come_in_their_order_and_the_cluster_is_named_after_the_stack() -> None:
    jobs = {"z": OWN, "mnist-gloo": {"torch": 2.14}, "cifar-gloo": {}}
    others = {"pulumi:tags": "x", "kubernetes:context": "y"}  # other projects'
    settings = parse({**configured(jobs=jobs), **others}, "dev", ["aws:token"])
    assert isinstance(settings, StackSettings)
    assert [job.name for job in settings.jobs] == ["z", "mnist-gloo", "cifar-gloo"]
    # A version may stand without quotes where that is no other number.
    assert settings.jobs[1].torch == "2.14"
    assert settings.jobs[2] == CATALOG["cifar-gloo"]
    assert settings.cluster.options.name == "dev"
    named = parse({"slipway:cluster": json.dumps({**EMBEDDED, "name": "mine"})}, "dev")
    assert (named.cluster.options.name, named.jobs) == ("mine", [])


def with_job(**fields: Any) -> dict[str, str]:
    return configured(jobs={"mnist-gloo": fields})


def with_secret(name: str, **others: str) -> dict[str, str]:
    return configured(jobs={"mnist-gloo": {"env": {"TOKEN": {"config": name}}}}, **others)


def notifying(url: Any, **others: Any) -> dict[str, str]:
    return configured(notify=json.dumps({"url": url, **others}), hook=_HOOK)


JOB = "jobs.mnist-gloo"
TOKEN, TORCH = f"{JOB}.env.TOKEN.config", f"{JOB}.torch"
NO_MAP = "is not allowed; it must be a map"
IN_PLAIN_TEXT = (
    "its value is not allowed; it must be {config: hook}, which refers to a value set by "
    "`pulumi config set --secret hook`"
)
SET_TOKEN = "--stack dev --secret slipway:hfToken`"
CONTRADICTED = ("subscription", "location", "budget", "api", "idleMinutes", "system.size")
UNREAD = {"hook": ""}
"""What nothing reads where no url names it."""


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (configured({}), {"cluster.kind": "is missing.*embedded"}),
        (
            configured({"kind": "embeded"}),
            {"cluster.kind": r'"embeded".*did you mean "embedded"\?'},
        ),
        (configured({"kind": ["embedded"]}), {"cluster.kind": r'\["embedded"\]'}),
        (configured([]), {"cluster": r"\[\] is not allowed.*a map"}),
        (
            configured({"knd": "embedded"}),
            {"cluster.kind": "is missing", "cluster.knd": r'did you mean "kind"\?'},
        ),
        # The user's settings are not to be overwritten by the repository's.
        ({"slipway:jobs": "{}"}, {"cluster": "is missing; copy it from stacks/dev.yaml"}),
        (
            {"slipway:cluster": "embedded", "slipway:jobs": "mnist-gloo"},
            {"cluster": f'"embedded" {NO_MAP}', "jobs": f'"mnist-gloo" {NO_MAP}'},
        ),
        (configured(job="{}"), {"job": r'there is no such key; did you mean "jobs"\?'}),
        (configured(exec="yes"), {"exec": '"yes" is not allowed; it must be true or false'}),
        (
            configured(jobs={"mnist-glo": {}, "Not_A_Name": OWN, "mnist-gloo": {"epochs": 1.5}}),
            {
                "jobs.mnist-glo": r'did you mean "mnist-gloo"\?',
                "jobs.Not_A_Name": 'the name "Not_A_Name" is not allowed',
                f"{JOB}.epochs": "1.5 is not allowed",
            },
        ),
        # Of an unknown size nothing else is said.
        (
            configured({**_AKS, "gpu": {"size": "Standard_NC36ads_A10_v4"}}, {"mnist-nccl": {}}),
            {"cluster.gpu.gpusPerNode": ""},
        ),
        (configured(torch="2.14.1"), {"torch": r"it must be one of .*Did you mean 2\.14\?$"}),
        (with_job(torch="2.14.1"), {TORCH: r"in quotes.*Did you mean 2\.14\?$"}),
        (with_job(torch=2.10), {TORCH: "in quotes"}),
        *(
            (
                configured(jobs={"mine": {**program, "torch": "2.6"}}),
                {"jobs.mine.torch": "its version of torch"},
            )
            for program in (OWN, {"build": {"context": "images/trainer"}})
        ),
        # Secrets that are missing or not encrypted.
        (with_secret("hfToken"), {TOKEN: f"does not contain.*`pulumi config set {SET_TOKEN}"}),
        (with_secret("hfToken", hfToken="hidden"), {TOKEN: f"unencrypted.*{SET_TOKEN}"}),
        (with_secret("jobs"), {TOKEN: "one of Slipway's keys"}),
        (
            notifying(_HOOK, key=_KEY, on=["suceeded"], form="discord"),
            {
                "notify.url": IN_PLAIN_TEXT,
                "notify.key": IN_PLAIN_TEXT,
                "notify.on[0]": '"suceeded" is not allowed; it must be one of failed, succeeded',
                "notify.form": '"discord" is not allowed; it must be one of plain, slack, teams',
                **UNREAD,
            },
        ),
        (configured(notify="{}"), {"notify.url": "is missing"}),
        (notifying({"secret": "a"}), {"notify.url.secret": "is not allowed", **UNREAD}),
        (notifying({"config": "nowhere"}), {"notify.url.config": 'contain "nowhere"', **UNREAD}),
        (
            notifying({"config": "hook"}, key={"config": "jobs"}),
            {
                "notify.url.config": "is stored unencrypted in the configuration",
                "notify.key.config": "is one of Slipway's keys",
            },
        ),
        # Contradictions are reported beside missing values.
        (
            configured(
                {"kind": "aks", "idleMinutes": 0, "system": {"size": "Standard_NC4as_T4_v3"}}
            ),
            dict.fromkeys(map("cluster.{}".format, CONTRADICTED)),
        ),
    ],
)
def test_a_problem_names_its_key_and_the_way_out(
    config: dict[str, str], told: dict[str, str | None]
) -> None:
    found = problems(config, ["slipway:another"])
    assert found.keys() == told.keys()
    for key, words in told.items():
        assert re.search(words or "", found[key], re.DOTALL), (key, found[key])
    assert "hidden" not in str(found)


def test_without_any_settings_the_template_to_copy_or_the_kinds_are_named() -> None:
    for stack, told in (
        ("kind", "`cp stacks/kind.yaml Pulumi.kind.yaml`"),
        ("mine", "slipway:cluster.kind: is missing; allowed: aks"),
    ):
        with pytest.raises(SettingsError, match=told):
            parse({"kubernetes:context": "y"}, stack)


def test_a_section_that_is_a_secret_is_refused_since_a_job_would_show_it() -> None:
    found = problems(with_job(), ["slipway:jobs"])
    assert re.search(r"secret.*TOKEN: \{config: hfToken\}", found["jobs"], re.DOTALL)


def test_the_stack_chooses_the_torch_of_jobs_that_ask_for_none_where_there_is_one() -> None:
    assert parse(configured(jobs={"mnist-gloo": {}}, torch="2.10"), "dev").torch == "2.10"
    # It is there for GPUs alone.
    assert chosen(None, gpus=False, stack="2.10") == chosen(None, gpus=False)
    assert chosen(None, gpus=True, stack="2.10").torch == "2.10"
    assert chosen("2.6", gpus=True, stack="2.10").torch == "2.6"


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ({"size": "Standard_NV36ads_A10_v5"}, "the GPUs' driver supports only 12"),
        ({"size": "Standard_NC6s_v3", "gpusPerNode": 1}, "(sm_70)"),
    ],
)
def test_a_torch_without_the_gpus_kernels_is_refused(gpu: dict[str, Any], why: str) -> None:
    text = problems(configured({**_AKS, "gpu": gpu}, {"mnist-nccl": {}}))["jobs.mnist-nccl.torch"]
    assert why in text
    assert 'use "2.10"' in text
    parse(configured({**_AKS, "gpu": gpu}, {"mnist-nccl": {"torch": "2.10"}}), "azure")


def test_gpus_with_a_newer_driver_of_the_users_own_take_the_newest_torch() -> None:
    gpu = {"size": "Standard_NV36ads_A10_v5", "driver": "gpu-operator", "minNodes": 1}
    parse(configured({**_AKS, "gpu": gpu}, {"mnist-nccl": {}}), "azure")


def test_secrets_that_settings_name_are_kept_apart_and_not_shown() -> None:
    settings = parse(with_secret("hfToken", hfToken="hidden"), "dev", ["slipway:hfToken"])
    assert settings.secrets == {"hfToken": "hidden"}
    # One that no job names is left alone.
    assert parse(configured(hfToken="hidden"), "dev", ["slipway:hfToken"]).secrets == {}
    config = notifying({"config": "hook"}, key={"config": "hookKey"}, on=["failed"])
    hooked = parse({**config, "slipway:hookKey": _KEY}, "dev", ["slipway:hook", "slipway:hookKey"])
    form = {"form": "plain", "stack": "dev"}
    assert hooked.hook == {"url": _HOOK, "key": _KEY, "on": ("failed",), **form}
    assert "hidden" not in repr((settings, hooked))
    brief = parse(notifying({"config": "hook"}), "dev", ["slipway:hook"])
    assert brief.hook == {"url": _HOOK, "on": ("failed", "succeeded"), **form}
    assert parse(configured(), "dev").hook == {}


def test_the_message_counts_the_problems_and_says_what_to_do() -> None:
    with pytest.raises(SettingsError) as caught:
        parse(configured({"kind": "x"}, {"y": {}}), "dev")
    text = str(caught.value)
    assert text.startswith("2 problems in the configuration, so nothing was changed:\n")
    assert "Pulumi.dev.yaml" in text
    assert text.endswith("Correct Pulumi.dev.yaml and run the command again.")
