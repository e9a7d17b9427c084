"""A log is read in whole lines, none of which fills the memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from jobs.api.client import JobApi
from jobs.api.lines import LONGEST, Line
from tests.unit.fake_api import FakeApi, served

LOG = "/api/v1/namespaces/slipway-jobs/pods/mine-master-0/log"
STAMP = "2026-01-01T00:00:01.000000000Z"


@pytest.fixture(name="server")
def _server() -> Iterator[FakeApi]:
    with served(FakeApi()) as server:
        yield server


def read(server: FakeApi, **part: Any) -> list[Line]:
    api = JobApi.connect(server.kubeconfig, "slipway-jobs", "mine")
    return [line for batch in api.log_lines("mine-master-0", **part) for line in batch]


@pytest.mark.parametrize(
    ("sent", "texts"),
    [
        (f"{STAMP} one\n{STAMP} two\n", ["one", "two"]),
        (f"{STAMP} one\n{STAMP} unfini", ["one"]),
        (f"{STAMP} one\nfailed to watch the log\n{STAMP} two\n", ["one", "two"]),
        (f"{STAMP} {'x' * 3 * LONGEST}\n{STAMP} two\n", ["x" * (LONGEST - 31), "two"]),
        (f"{STAMP} {'ü' * 40_000}\n", ["ü" * 40_000]),
        ("", []),
    ],
)
def test_lines_are_whole_and_bounded(server: FakeApi, sent: str, texts: list[str]) -> None:
    server.says("GET", LOG, sent)
    assert read(server) == [Line(STAMP, text) for text in texts]


def test_what_is_asked_for_is_what_the_part_says(server: FakeApi) -> None:
    server.says("GET", LOG, "")
    read(server, since="2026-01-01T00:00:00Z", previous=True, follow=True)
    [(_, path, _)] = server.asked
    assert path.partition("?")[2].split("&") == [
        "container=pytorch",
        "previous=true",
        "follow=true",
        "sinceTime=2026-01-01T00%3A00%3A00Z",
        "timestamps=true",
    ]


def test_a_refusal_has_the_api_servers_words(server: FakeApi) -> None:
    with pytest.raises(ApiException) as refused:
        read(server)
    assert refused.value.status == 404
    assert "not found" in str(refused.value.body)
