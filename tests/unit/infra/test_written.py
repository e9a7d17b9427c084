"""What YAML's rules make another value of, before a program of Pulumi's sees it, is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra import settings, written
from infra.settings import SettingsError

READ: dict[str, Any] = {
    "2026-01-01": "2026-01-01 00:00:00 +0000 UTC",
    "2026-1-2": "2026-01-02 00:00:00 +0000 UTC",
    "2026-01-01T10:00:00Z": "2026-01-01 10:00:00 +0000 UTC",
    "010": 8, "0x1F": 31, "0o17": 15, "0b11": 3, "1_000": 1000, "+1": 1, "-0": 0,
    "1e6": 1000000, "1e-3": 0.001, "12345678901234567890": 12345678901234567000,
    "3.10": 3.1, "1.0": 1, ".5": 0.5, "0.00000012": 1.2e-7, "True": True,
}  # fmt: skip
"""As Pulumi 3.250 has it: `pulumi config --json --config-file …` printed it, and the next ones."""
SAME = {
    "--since": "--since", "no": "no", "NO": "NO", "true": True, "12:30:45": "12:30:45", "-1": -1,
    "0.1": 0.1, "0.30000000000000004": 0.30000000000000004, "9007199254740993": 9007199254740993,
    "123456.789": 123456.789, "~": None, '"2026-01-01"': "2026-01-01", "'010'": "010",
    "!!str 010": "010", '"3.10"': "3.10",
}  # fmt: skip


def found(tmp_path: Path, line: str, value: object, field: str = "args") -> list[str]:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(f"config:\n  slipway:jobs:\n    mine:\n      {field}: [--a, {line}]\n")
    config = {"slipway:jobs": {"mine": {field: ["--a", value]}}}
    return [*map(str, written.altered(config, path))]


@pytest.mark.parametrize("text", READ)
def test_a_value_read_as_another_is_named_with_the_remedy(tmp_path: Path, text: str) -> None:
    (problem,) = found(tmp_path, text, READ[text])
    assert problem.startswith(f"slipway:jobs.mine.args[1]: {text} is read as ")
    assert problem.endswith(f"put it in quotes: {json.dumps(text)}")


@pytest.mark.parametrize("text", SAME)
def test_what_arrives_as_it_stands_is_none(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text, SAME[text]) == []


def test_a_number_may_be_spelt_in_any_way_that_means_the_same(tmp_path: Path) -> None:
    """`learningRate: 1e-3` is no text."""
    for text, value in (("1e-3", 0.001), ("0.90", 0.9), ("1e6", 1000000), ("True", True)):
        assert found(tmp_path, text, value, "numbers") == []
    (octal,) = found(tmp_path, "010", 8, "numbers")
    assert '010 is read as "8"' in octal


@pytest.mark.parametrize("value", [2, "other", None, ["x"], {"x": 1}, False])
def test_a_value_from_elsewhere_is_not_judged(tmp_path: Path, value: object) -> None:
    assert found(tmp_path, "0.10", value) == []
    assert [*written.altered({"slipway:jobs": {}}, tmp_path / "missing.yaml")] == []


def test_all_of_them_are_reported_at_once_beside_other_problems(tmp_path: Path) -> None:
    """What its type says of the value that was read would only mislead."""
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(
        "config:\n  slipway:jobs:\n    mine:\n      script: missing.py\n"
        "      args: [010]\n      env: {VERSION: 1.10, DAY: 2026-01-01}\n"
    )
    env = {"VERSION": 1.1, "DAY": "2026-01-01 00:00:00 +0000 UTC"}
    jobs = {"mine": {"script": "missing.py", "args": [8], "env": env}}
    altered = [*written.altered({"slipway:jobs": jobs}, path)]
    config = {"slipway:cluster": json.dumps({"kind": "embedded"}), "slipway:jobs": json.dumps(jobs)}
    with pytest.raises(SettingsError) as error:
        settings.parse(config, "dev", altered=altered)
    mine = "slipway:jobs.mine"
    places = [f"{mine}.args[0]", f"{mine}.env.VERSION", f"{mine}.env.DAY"]
    assert [each.key for each in error.value.problems][:3] == places
    assert len(error.value.problems) == 3
