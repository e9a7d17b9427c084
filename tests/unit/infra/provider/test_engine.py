"""Plain Python values travel to the engine and back unchanged."""

import json
from types import SimpleNamespace
from typing import cast

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from hypothesis import given, strategies
from pulumi import FileAsset
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import PropertyDiffKind
from pulumi.runtime import rpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from core.handler import SECRET, UNKNOWN, Change
from infra.provider.engine import EngineContext, complete, plain, plain_map, wrap, wrap_map
from infra.provider.provider import response
from tests.unit.anything import TEXTS, VALUES

# What JSON has, less integers that a 64-bit float cannot hold.
_scalars = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers(min_value=-(2**53), max_value=2**53)
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text().filter(lambda text: text != rpc.UNKNOWN)
    | strategies.just(UNKNOWN)
)
_values = strategies.recursive(
    _scalars,
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    max_leaves=10,
)


@given(strategies.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_the_engines_json_has_no_value_for_is_text(values: dict[str, object]) -> None:
    """NaN, infinite numbers, integers of any size and lone surrogates pass, and strict JSON."""
    sent = plain_map(wrap_map(values))
    json.dumps(sent, allow_nan=False, ensure_ascii=False).encode()
    odd = {float("nan"): "nan", 2**1024: hex(2**1024), "\udce9": "\\udce9"}
    assert [wrap(value).value for value in odd] == [*odd.values()]


@given(strategies.dictionaries(strategies.text(), _values, max_size=3))
def test_a_map_comes_back_as_it_went(values: dict[str, object]) -> None:
    found = plain_map(wrap_map(values))
    assert found == values
    assert [*found] == sorted(values), "jobs of a component start in the order of their names"
    for key, value in values.items():
        assert not isinstance(value, int) or type(found[key]) is type(value)


@given(_values)
def test_a_secret_can_be_hidden_at_any_depth(value: object) -> None:
    hidden = PropertyValue([wrap(value, secret=True)])
    values = {"open": wrap("x"), "token": wrap(value, secret=True), "list": hidden}
    shown = plain_map(values, hide_secrets=True)
    assert shown == {"open": "x", "token": SECRET, "list": [SECRET]}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("secret", [True, False])
def test_an_output_in_a_components_input_is_read_as_it_is(*, known: bool, secret: bool) -> None:
    """The engine sends of it only what is known and true, which the SDK takes for broken."""
    mark = {rpc._special_sig_key: rpc._special_output_value_sig}
    sent = {**mark, **({"value": "x"} if known else {}), **({"secret": True} if secret else {})}
    message = ParseDict({"in": [sent]}, Value())
    complete(message)
    read = PropertyValue("x" if known else rpc.UNKNOWN, is_secret=secret)
    assert PropertyValue.unmarshal(message) == PropertyValue({"in": PropertyValue([read])})


def test_only_what_asks_for_it_replaces_and_drift_is_no_change_of_an_input() -> None:
    found = response([Change("spec.a", drift=True), Change("spec.b", replace=True)])
    assert (found.replaces, {*found.diffs}) == (["spec.b"], {"spec"})
    assert found.delete_before_replace
    kinds = {path: (each.kind, each.input_diff) for path, each in found.detailed_diff.items()}
    update, replace = PropertyDiffKind.UPDATE, PropertyDiffKind.UPDATE_REPLACE
    assert kinds == {"spec.a": (update, False), "spec.b": (replace, True)}


def test_a_file_is_refused() -> None:
    with pytest.raises(TypeError, match="not supported"):
        plain(PropertyValue(FileAsset("somewhere")))


def test_no_text_of_a_program_moves_a_terminals_cursor() -> None:
    logged: list[engine_pb2.LogRequest] = []
    engine = cast("engine_pb2_grpc.EngineStub", SimpleNamespace(Log=logged.append))
    EngineContext(engine, "urn").warn("\x1b[31mred\x1b[0m\x00, \x1b[2Jgone\r\n\ttab, caf\udce9")
    assert logged[0].message == "red, gone\n\ttab, caf\\udce9"
