"""What the acceptance run makes of a user's settings, what it may cost, and its report."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings import SettingsError
from scripts.azure_acceptance import DOWN_SECONDS, Cap, cap_of, run, stack_config
from scripts.ci_smoke import Summary
from scripts.cli.terminal import CommandError
from scripts.scratch import Scratch
from tests.unit.scripts.test_azure_requests import CANARY, MARKED, create

_MAKEFILE = """\
.PHONY: up smoke down
up smoke down:
\t@test ! -e $@-hangs || sleep 30
\t@test ! -e $@.recording || cat $@.recording >> "$$PULUMI_DEBUG_GRPC"
results:
\t@echo '{"jobs": {}}'
env:
\t@echo 'pulumi() { test "$$1" = refresh; }'
"""
CAP = Cap(5.0, 0.23, "USD")


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    """A user's own settings of the stack `azure`."""
    found: dict[str, Any] = yaml.safe_load((root / "stacks/azure.yaml").read_text())["config"]
    return found


def test_the_stack_is_one_node_with_the_users_account_alone(config: dict[str, Any]) -> None:
    before = config["slipway:cluster"]
    before |= {"name": "mine", "resourceGroup": "mine", "production": True, "tier": "Standard"}
    found = stack_config(config)
    cluster = found["slipway:cluster"]
    own = ("subscription", "location", "api", "admins", "budget")
    assert {key: cluster[key] for key in own} == {key: before[key] for key in own}
    assert cluster["gpu"] is False
    assert cluster["system"] == {"minNodes": 1, "maxNodes": 1}
    assert not {"name", "resourceGroup", "production", "tier"} & cluster.keys()
    assert cap_of(found, 5).hourly == 0.23


def test_a_run_stops_in_time_to_pay_for_taking_the_stack_down() -> None:
    assert Cap(0.23, 0.23, "USD").seconds == pytest.approx(1800)


@pytest.mark.parametrize("cap", [0.1, -1, math.nan, math.inf])
def test_a_cap_that_is_too_low_starts_nothing(cap: float, config: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="is not finite, or does not cover `down`"):
        cap_of(stack_config(config), cap)


def test_no_price_no_run(config: dict[str, Any]) -> None:
    config["slipway:cluster"]["location"] = "norwayeast"
    with pytest.raises(CommandError, match="no price for Standard_D4s_v5 in norwayeast"):
        cap_of(stack_config(config), 5)


def test_a_price_table_of_the_users_own_counts(config: dict[str, Any], tmp_path: Path) -> None:
    table = {
        "currency": "EUR",
        "sources": {"a": {"publisher": "b", "url": "https://c.example", "date": "2026-01-01"}},
        "prices": [{"source": "a", "provider": "azure", "region": "norwayeast",
                    "hourly": {"Standard_D8s_v5": 0.1}}],
    }  # fmt: skip
    (tmp_path / "prices.yaml").write_text(yaml.safe_dump(table))
    config["slipway:cluster"] |= {"location": "norwayeast", "system": {"size": "Standard_D8s_v5"}}
    config["slipway:prices"] = str(tmp_path / "prices.yaml")
    cap = cap_of(stack_config(config), 5)
    assert (cap.hourly, cap.currency) == (0.1, "EUR")


def test_settings_of_another_kind_and_wrong_ones_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="not of the kind aks"):
        stack_config({"slipway:cluster": {"kind": "embedded"}})
    config["slipway:cluster"]["location"] = "West Europe"
    with pytest.raises(SettingsError, match="location"):
        cap_of(stack_config(config), 5)


@pytest.fixture
def scratch(copy_of: Callable[[dict[str, str]], Scratch]) -> Scratch:
    """A copy of a checkout with commands that record what a test has them record."""
    return copy_of({"Makefile": _MAKEFILE, "stacks/azure.yaml": ""})


def outcomes(summary: Summary) -> dict[str, str]:
    return {step.name: step.outcome for step in summary.steps}


def test_it_goes_up_twice_and_down(scratch: Scratch, config: dict[str, Any]) -> None:
    record(scratch, "down", create({"adminValue": MARKED}))
    summary, text = run(scratch, stack_config(config), CAP)
    names = ["up", "refresh", "up again", "smoke", "down"]
    assert outcomes(summary) == dict.fromkeys(names, "ok")
    [asked] = json.loads(text)["requests"]
    assert (asked["step"], asked["name"]) == ("down", "mine")
    assert CANARY not in text
    kept = {"checkout", "errors", "output", "state"}
    assert {each.name for each in scratch.directory.iterdir()} <= kept
    made = yaml.safe_load((scratch.checkout / "stacks/azure-acceptance.yaml").read_text())
    assert made["config"]["slipway:cluster"]["gpu"] is False


def test_a_second_up_that_changes_fails(scratch: Scratch, config: dict[str, Any]) -> None:
    record(scratch, "up", create({}))
    summary, text = run(scratch, stack_config(config), CAP)
    assert summary.status == 1
    changed = "changed azure-native:containerregistry:Registry mine"
    assert outcomes(summary) == {"up": "ok", "refresh": "ok", "up again": changed, "down": "ok"}
    assert [each["step"] for each in json.loads(text)["requests"]] == ["up", "up again"]


def test_the_cap_ends_it_and_it_goes_down(scratch: Scratch, config: dict[str, Any]) -> None:
    (scratch.checkout / "up-hangs").touch()
    seconds = int(DOWN_SECONDS) + 1
    cap = Cap(seconds, 3600, "USD")
    summary, text = run(scratch, stack_config(config), cap)
    assert summary.status == 124
    assert outcomes(summary) == {"up": "timed out after 1 s", "down": "ok"}
    assert json.loads(text)["cost"]["max"] == str(seconds)


def record(scratch: Scratch, target: str, line: str) -> None:
    """Have a command record a call, as the engine does."""
    (scratch.checkout / f"{target}.recording").write_text(f"{line}\n")
