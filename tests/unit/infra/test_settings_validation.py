"""A document is checked against a dataclass, and what is wrong is said in plain words."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from core.fields import CONFIG, number
from core.problem import Problem, choices, quote
from core.validation import check


@dataclass(frozen=True, config=CONFIG)
class Disk:
    """A section in a section."""

    size: Annotated[int, Field(ge=1)]
    share: Annotated[float, BeforeValidator(number)] | None = None


@dataclass(frozen=True, config=CONFIG)
class Pool:
    """A made-up section with one field of each shape."""

    name: Annotated[str, Field(pattern="^[a-z]+$", description="lower-case letters")]
    size: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(gt=0), BeforeValidator(number)] = 0.5
    kind: Literal["spot", "regular"] = "spot"
    zones: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    zone: str | None = None
    spread: bool = False
    password: Annotated[int | None, Field(json_schema_extra={"writeOnly": True})] = None
    disk: Disk | None = None
    disks: tuple[Disk, ...] = ()
    root: dict[str, str | Disk] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("document", "key", "text"),
    [
        ({"name": "A"}, "it.name", '"A" is not allowed; it must be lower-case letters'),
        ({"size": 0}, "it.size", "0 is not allowed; it must be a whole number from 1 to 9"),
        ({"size": True}, "it.size", "true is not allowed; it must be a whole number from 1 to 9"),
        ({"share": 0}, "it.share", "0 is not allowed; it must be a number above 0"),
        ({"share": "x"}, "it.share", '"x" is not allowed; it must be a number above 0'),
        ({"kind": "spto"}, "it.kind", '"spto" is not allowed; it must be one of spot, regular'),
        ({"zones": "a"}, "it.zones", '"a" is not allowed; it must be a list'),
        ({"zones": [1]}, "it.zones[0]", "1 is not allowed; it must be text"),
        ({"labels": {"a": 1}}, "it.labels.a", "1 is not allowed; it must be text"),
        ({"spread": 1}, "it.spread", "1 is not allowed; it must be true or false"),
        ({"disk": 3}, "it.disk", "3 is not allowed; it must be a map with the keys size, share"),
        ({"disk": {}}, "it.disk.size", "is missing; set it to a whole number of at least 1"),
        ({"disk": {"size": 1, "szie": 1}}, "it.disk.szie", 'there is no such key; did you mean "s'),
        ({"disks": [{"size": 1}, {}]}, "it.disks[1].size", "is missing"),
        ({"root": {"a": 1}}, "it.root.a", "1 is not allowed; it must be text or a map with the k"),
        ({"root": {"a.b": {"size": 0}}}, 'it.root["a.b"].size', "0 is not allowed"),
        ({"siez": 1}, "it.siez", 'there is no such key; did you mean "size"?'),
        # What is to be hidden is not repeated.
        ({"password": "x"}, "it.password", "its value is not allowed; it must be a whole number"),
    ],
)
def test_each_problem_says_what_is_allowed(document: dict[str, Any], key: str, text: str) -> None:
    found = check(Pool, {"name": "a", **document}, "it")
    assert isinstance(found, list)
    (problem,) = found
    assert problem.key == key
    assert problem.text.startswith(text)


BOTH = Disk(3, 0.5)


@pytest.mark.parametrize(
    ("document", "base", "value"),
    [
        (
            {"name": "a", "zones": ["x", "y"], "share": 1, "labels": {"k": "v"}},
            *({}, Pool("a", zones=("x", "y"), share=1, labels={"k": "v"})),
        ),
        # The command line writes a number as text.
        ({"name": "a", "share": "0.25"}, {}, Pool("a", share=0.25)),
        ({"name": "a", "disk": {"size": 1, "share": "0.25"}}, {}, Pool("a", disk=Disk(1, 0.25))),
        # What the document leaves out comes from the base, in maps key by key.
        ({"size": 2}, {"name": "b", "size": 3, "not a field": 1}, Pool("b", size=2)),
        ({"disk": {"share": 0.5}}, {"name": "a", "disk": {"size": 3}}, Pool("a", disk=BOTH)),
    ],
)
def test_what_is_right_becomes_a_value(
    document: dict[str, Any], base: dict[str, Any], value: Pool
) -> None:
    assert check(Pool, document, "it", base=base) == value


def test_a_missing_value_a_wrong_one_and_an_unknown_key_are_reported_together() -> None:
    found = check(Pool, {"size": 0, "colour": 1}, "it")
    assert isinstance(found, list)
    assert {problem.key for problem in found} == {"it.name", "it.size", "it.colour"}
    assert Problem("it.name", "is missing; set it to lower-case letters") in found


def test_choices_lists_all_when_nothing_is_like_the_word() -> None:
    assert choices("gke", ["minikube", "kind"]) == "allowed: kind, minikube"


def test_a_long_value_is_cut() -> None:
    assert quote("x" * 500) == '"' + "x" * 59 + '…"'
