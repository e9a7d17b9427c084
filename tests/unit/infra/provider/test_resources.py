"""A plugin as the engine meets it: another process that speaks gRPC."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, provider_pb2_grpc

from core import kube
from tests.unit.plugin_box import TOKEN

URN = f"urn:pulumi:dev::slipway::{TOKEN}::box"
UNKNOWN_MARK = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""How the engine writes an unknown value (sdk/go/common/resource/plugin/rpc.go)."""
SECRET_MARK = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
_EXIT_LIMIT = 10


class Engine(engine_pb2_grpc.EngineServicer):
    """The engine's side: it keeps what a plugin tells it, whether in passing, and of what."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool, str]] = []

    def Log(  # noqa: N802 (the protocol's name)
        self, request: engine_pb2.LogRequest, context: Any
    ) -> empty_pb2.Empty:
        self.told.append((request.message, request.ephemeral, request.urn))
        return empty_pb2.Empty()


@dataclass
class Plugin:
    """A plugin at work, and the engine that started it."""

    process: subprocess.Popen[str]
    calls: provider_pb2_grpc.ResourceProviderStub
    server: grpc.Server
    told: list[tuple[str, bool, str]]


@pytest.fixture
def plugin(root: Path) -> Iterator[Plugin]:
    engine = Engine()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    command = [sys.executable, "-m", "tests.unit.plugin_box", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the plugin printed no port"
        with grpc.insecure_channel(f"127.0.0.1:{address}") as channel:
            calls = provider_pb2_grpc.ResourceProviderStub(channel)
            yield Plugin(process, calls, server, engine.told)
        process.kill()
    server.stop(grace=None)


def struct(**values: Any) -> Struct:
    message = Struct()
    message.update(values)
    return message


def create(plugin: Plugin, *, preview: bool = False, **inputs: Any) -> provider_pb2.CreateResponse:
    request = provider_pb2.CreateRequest(urn=URN, properties=struct(**inputs), preview=preview)
    response: provider_pb2.CreateResponse = plugin.calls.Create(request)
    return response


def refusal(call: Any, request: Any) -> str:
    """Return the text with which `call` fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    return str(caught.value.details())


def secret(value: str) -> dict[str, str]:
    return {SECRET_MARK: SECRET, "value": value}


def test_a_create_marks_its_secrets_and_tells_its_progress_on_its_own_row(plugin: Plugin) -> None:
    response = create(plugin, size=1, password=secret("hush"))
    assert response.id == "box-1"
    secrets = {"password": secret("hush"), "key": secret("k3y")}
    assert MessageToDict(response.properties) == {"size": 1, "address": "here", **secrets}
    assert plugin.told == [("at work", True, URN), ("done", False, URN)]


def test_a_preview_makes_nothing_may_speak_and_sees_no_secret(plugin: Plugin) -> None:
    response = create(plugin, preview=True, size=13, label=secret("hush"))
    assert plugin.told == [("its label: SECRET", False, URN)]
    unknown = {"address": UNKNOWN_MARK, "key": secret(UNKNOWN_MARK)}
    assert MessageToDict(response.properties) == {"size": 13, "label": secret("hush"), **unknown}


def test_a_refusal_returns_only_its_own_message(plugin: Plugin) -> None:
    make = provider_pb2.CreateRequest(urn=URN, properties=struct(size=13))
    assert refusal(plugin.calls.Create, make) == "there is no size 13;\ntake another"
    delete = provider_pb2.DeleteRequest(urn=URN, id="box-1", properties=struct(size=13))
    assert refusal(plugin.calls.Delete, delete) == "it is nailed down"
    make.urn = "urn:pulumi:dev::slipway::slipway:test:Bag::bag"
    unknown = f"no resource type 'slipway:test:Bag'; valid types: {TOKEN}"
    assert refusal(plugin.calls.Create, make) == unknown


def test_a_failed_check_names_the_property(plugin: Plugin) -> None:
    response = plugin.calls.Check(provider_pb2.CheckRequest(urn=URN, news=struct(size=0)))
    assert [(it.property, it.reason) for it in response.failures] == [("size", "0: at least 1")]


def test_a_passing_input_reaches_what_the_engine_asks_for_and_no_state(plugin: Plugin) -> None:
    news = struct(size=1, token=secret("hush"))
    checked = plugin.calls.Check(provider_pb2.CheckRequest(urn=URN, news=news)).inputs
    assert MessageToDict(checked) == {"size": 1}
    made = create(plugin, size=1).properties
    assert MessageToDict(made) == {"size": 1, "address": "known to hush", "key": secret("k3y")}
    diff = provider_pb2.DiffRequest(urn=URN, id="box-1", olds=made, news=checked)
    assert plugin.calls.Diff(diff).changes == provider_pb2.DiffResponse.DIFF_NONE
    assert plugin.told[-1][0] == "looked with hush"


@pytest.mark.parametrize(
    ("server", "context", "token"),
    [("https://a", "x", "new"), ("https://b", "x", "old"), ("https://a", "team-b", "old")],
)
def test_a_deletion_uses_the_newest_credentials_of_its_context_on_its_server(
    plugin: Plugin, server: str, context: str, token: str
) -> None:
    """Another component's may not delete, or reach another cluster behind the same proxy."""

    def box(server: str, context: str, token: str) -> Struct:
        content = kube.kubeconfig(context, {"server": server}, {"token": token})
        return struct(size=1, kubeconfig=secret(content))

    plugin.calls.Check(provider_pb2.CheckRequest(urn=URN, news=box("https://a", "x", "new")))
    old = provider_pb2.DeleteRequest(urn=URN, properties=box(server, context, "old"))
    plugin.calls.Delete(old)
    assert f"token: {token}\n" in plugin.told[-1][0]


def diff(*ignored: str, urn: str = URN) -> provider_pb2.DiffRequest:
    """Return the engine's question whether a box of size 1 changes with size 2."""
    olds, news = struct(size=1, address="here"), struct(size=2)
    return provider_pb2.DiffRequest(urn=urn, olds=olds, news=news, ignoreChanges=ignored)


@pytest.mark.parametrize(("ignored", "changed"), [([], ["size"]), (["size"], [])])
def test_a_diff_heeds_ignored_keys(plugin: Plugin, ignored: list[str], changed: list[str]) -> None:
    response = plugin.calls.Diff(diff(*ignored))
    assert [*response.detailedDiff] == changed
    assert (response.changes == provider_pb2.DiffResponse.DIFF_SOME) == bool(changed)


def test_messages_of_diffs_are_printed_once_and_not_by_a_refresh(plugin: Plugin) -> None:
    """`up --refresh` comes to its own diff after that of the refresh."""
    plugin.calls.Read(provider_pb2.ReadRequest(id="box-1", urn=URN, inputs=struct(size=1)))
    plugin.calls.Diff(diff())
    assert plugin.told == []
    for urn in (URN, URN, f"{URN}-2"):
        plugin.calls.Diff(diff(urn=urn))
    assert plugin.told == [("it was 1", False, URN), ("it was 1", False, f"{URN}-2")]


def test_it_ends_at_once_when_the_engine_is_gone(plugin: Plugin) -> None:
    create(plugin, size=1)
    plugin.server.stop(grace=None).wait()
    assert plugin.process.wait(_EXIT_LIMIT) == 1
