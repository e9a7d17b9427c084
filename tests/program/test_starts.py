"""What a start loads: whatever more it were, every command would pay for its import.

An import that is too much fails with who imports it. Most often the right answer is to import it
where it is used, or to have it in a module that the start does not need.
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
"""What Pulumi's SDK itself loads."""
CHECKS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
"""What checks the configuration; Kubernetes' client takes it, too."""
CLIENT = CHECKS | {
    "certifi", "charset_normalizer", "dateutil", "durationpy", "idna", "kubernetes", "oauthlib",
    "requests", "requests_oauthlib", "urllib3", "websocket",
}  # fmt: skip
"""What Kubernetes' client loads without any class of its API."""
PROGRAM = PULUMI | CHECKS | {"parver", "pulumi_kubernetes", "tenacity"}
PROVIDER = PULUMI | CLIENT | {"bcrypt", "cryptography", "tenacity"}

NEVER = re.compile(
    # Half a second and more, each: the API's classes, and those of the objects of a group.
    r"kubernetes\.client\.(api|models)\.|pulumi_kubernetes\.[a-z]\w*\."
)
OURS = {"clusters", "core", "images", "infra", "jobs", "scripts", "slipway", "tests"}
LINE = re.compile(r"import time: +\d+ \| +\d+ \| ( *)(\S+)")

DECLARES_DEV = """
import pathlib, pytest
from tests.program.declared import declare
declare(pathlib.Path("stacks/dev.yaml"), pytest.MonkeyPatch())
"""
OF_DEV = (
    "slipway:clusters:Embedded",
    "slipway:images:Image",
    "slipway:infra:OperatorReady",
    "slipway:jobs:Gate",
    "slipway:jobs:PyTorchJob",
)


def imported(told: str) -> Iterator[list[str]]:
    """Yield each module that was loaded, and after it who imported it, up to the first.

    Args:
        told: What Python prints with `-X importtime`: an importer after what it imports.
    """
    above: list[tuple[int, str]] = []
    for indent, name in reversed(LINE.findall(told)):
        depth = len(indent)
        while above and above[-1][0] >= depth:
            above.pop()
        yield [name, *(importer for _, importer in reversed(above))]
        above.append((depth, name))


def too_many(told: str, allowed: set[str]) -> list[str]:
    """Return the imports that a start should do without, each with who imports it."""
    chains = [
        (chain[0].partition(".")[0], chain)
        for chain in imported(told)
        if not chain[0].startswith("_sysconfigdata")  # the standard library's, named by platform
    ]
    fine = allowed | OURS | sys.stdlib_module_names
    # What is looked for in vain is printed, too.
    wrong = {name for name, _ in chains if name not in fine and find_spec(name) is not None}
    return [" < ".join(chain) for name, chain in chains if name in wrong or NEVER.match(chain[0])]


@pytest.fixture
def engine() -> Iterator[str]:
    """The address of an engine that has nothing to say."""
    server = grpc.server(futures.ThreadPoolExecutor())
    engine_pb2_grpc.add_EngineServicer_to_server(engine_pb2_grpc.EngineServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(grace=None)


def started(command: list[str], engine: str, directory: Path, types: tuple[str, ...]) -> str:
    """Start a plugin as the engine does, have it check each type, and return what it loaded."""
    told = directory / "imports"
    with (
        told.open("w") as errors,
        subprocess.Popen(
            [*command, engine],
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
            for token in types:
                urn = f"urn:pulumi:dev::slipway::{token}::it"
                calls.Check(provider_pb2.CheckRequest(urn=urn, type=token, name="it"))
        plugin.send_signal(signal.SIGINT)
    return told.read_text()


def test_the_program_loads_no_client_and_no_class_of_an_object(root: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-c", DECLARES_DEV]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    ours = finished.stderr.partition("tests.program.declared")[2]
    assert ["infra.program"] in [chain[:1] for chain in imported(ours)]
    assert too_many(ours, PROGRAM) == []


def test_the_local_provider_loads_no_api_class(root: Path, engine: str, tmp_path: Path) -> None:
    told = started([str(root / "infra/provider/pulumi-resource-slipway")], engine, tmp_path, OF_DEV)
    assert "jobs.observe.wait" in told
    assert too_many(told, PROVIDER) == []
