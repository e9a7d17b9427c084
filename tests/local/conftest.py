"""The machine that clusters of kind and minikube are made on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.machine import Machine, Server, api_server, machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with api_server(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
def here(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine(server, tmp_path, monkeypatch)
