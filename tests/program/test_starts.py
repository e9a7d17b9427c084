"""The modules that a start loads: each command would pay for the import of any more.

Import what is too much where it is used, or have it in a module that the start does not need;
`python -X importtime` shows who imports it.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from importlib.util import find_spec
from pathlib import Path

import grpc
import pytest
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

PULUMI = {
    "_cffi_backend", "_distutils_hack", "dill", "google", "grpc", "importlib_metadata",
    "opentelemetry", "packaging", "pulumi", "semver", "six", "typing_extensions", "wrapt", "yaml",
    "_yaml",
}  # fmt: skip
CHECKS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
"""Modules that check the configuration; Kubernetes' client takes them, too."""
CLIENT = CHECKS | {
    "certifi", "charset_normalizer", "dateutil", "durationpy", "idna", "kubernetes", "oauthlib",
    "requests", "requests_oauthlib", "urllib3", "websocket",
}  # fmt: skip
"""Modules of Kubernetes' client without any class of its API."""
PROGRAM = PULUMI | CHECKS | {"parver", "pulumi_kubernetes", "tenacity"}
PROVIDER = PULUMI | CLIENT | {"bcrypt", "cryptography", "socks", "tenacity"}
NEVER = re.compile(
    # Half a second and more, each: the API's classes, and those of the objects of a group.
    r"kubernetes\.client\.(api|models)\.|pulumi_kubernetes\.[a-z]\w*\."
)
OURS = {"clusters", "core", "images", "infra", "jobs", "scripts", "slipway", "tests"}
LINE = re.compile(r"import time: +\d+ \| +\d+ \| +(\S+)")


def too_many(told: str, allowed: set[str]) -> list[str]:
    """Return the imports that a start should do without, by what `-X importtime` has printed."""
    fine = allowed | OURS | sys.stdlib_module_names
    found = []
    for name in LINE.findall(told):
        top = name.partition(".")[0]
        is_known = top in fine or top.startswith("_sysconfigdata")  # named by platform
        # What is looked for in vain is printed, too.
        if NEVER.match(name) or not (is_known or find_spec(top) is None):
            found.append(name)
    return found


def test_the_program_loads_no_client_and_no_class_of_an_object(root: Path) -> None:
    """A stack on this machine loads nothing of Azure's SDK either."""
    code = """
import pytest
from tests.program.declared import declare, template
declare(template("dev"), pytest.MonkeyPatch())
"""
    command = [sys.executable, "-X", "importtime", "-c", code]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    ours = finished.stderr.partition("tests.program.declared")[2]
    assert "infra.program" in LINE.findall(ours)
    assert too_many(ours, PROGRAM) == []


@pytest.fixture
def engine() -> Iterator[str]:
    """The address of an engine that has nothing to say."""
    server = grpc.server(futures.ThreadPoolExecutor())
    engine_pb2_grpc.add_EngineServicer_to_server(engine_pb2_grpc.EngineServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(grace=None)


def test_the_local_provider_loads_no_api_class(root: Path, engine: str, tmp_path: Path) -> None:
    """The plugin is started as by the engine, and checks a resource of each type."""
    told = tmp_path / "imports"
    types = ("clusters:Embedded", "images:Image", "infra:OperatorReady", "jobs:Gate",
             "jobs:PyTorchJob")  # fmt: skip
    with (
        told.open("w") as errors,
        subprocess.Popen(
            [str(root / "infra/provider/pulumi-resource-slipway"), engine],
            env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as plugin,
    ):
        assert plugin.stdout is not None
        port = plugin.stdout.readline().strip()
        assert port, told.read_text()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            calls = provider_pb2_grpc.ResourceProviderStub(channel)
            for token in (f"slipway:{each}" for each in types):
                urn = f"urn:pulumi:dev::slipway::{token}::it"
                calls.Check(provider_pb2.CheckRequest(urn=urn, type=token, name="it"))
        plugin.send_signal(signal.SIGINT)
    assert "jobs.observe.wait" in told.read_text()
    assert too_many(told.read_text(), PROVIDER) == []
