"""A worker's place among the others, from its environment."""

from pathlib import Path
from typing import Any

import pytest

from slipway_trainer.membership import settings
from slipway_trainer.membership.settings import Address, ElasticSettings

_POD = {
    "PET_RDZV_ENDPOINT": "digits-worker-0:23456",
    "PET_NNODES": "2:3",
    "PET_MAX_RESTARTS": "4",
    "HOSTNAME": "digits-worker-2",
}
_OTHER = {"PET_RDZV_ENDPOINT": "a-worker-0-worker-0:1", "HOSTNAME": "a-worker-0-worker-1"}
"""A job may be called after a worker."""
_PEERS, _INDEX = "SLIPWAY_ELASTIC_PEERS", "SLIPWAY_ELASTIC_INDEX"
_LOCAL = {_PEERS: "127.0.0.1:29501,[::1]:29502", _INDEX: "1"}
_IN_CLUSTER = "search team.svc.cluster.local svc.cluster.local example.net\nnameserver 10.0.0.10\n"


def _named(name: str, port: int) -> tuple[Address, ...]:
    return tuple((name.format(number), port) for number in range(3))


@pytest.mark.parametrize(
    ("environment", "resolver", "expected"),
    [
        (_POD, _IN_CLUSTER, (2, _named("digits-worker-{}.team.svc.cluster.local.", 23456), 2, 4)),
        (_POD, "search example.net\n", (2, _named("digits-worker-{}", 23456), 2, 4)),
        ({**_POD, **_OTHER}, "", (1, _named("a-worker-0-worker-{}", 1), 2, 4)),
        (_LOCAL, "", (1, (("127.0.0.1", 29501), ("::1", 29502)), 1, settings.DEFAULT_LOSSES)),
        ({}, "", (0, (("127.0.0.1", 0),), 1, 0)),
    ],
    ids=["in a cluster", "no search domain", "job like a worker", "local", "alone"],
)
def test_a_worker_knows_its_index_and_its_peers(
    tmp_path: Path, environment: dict[str, str], resolver: str, expected: tuple[Any, ...]
) -> None:
    (tmp_path / "resolv.conf").write_text(resolver)
    assert settings.read(environment, tmp_path / "resolv.conf") == ElasticSettings(*expected)


def test_all_problems_are_named_at_once() -> None:
    wrong = {
        _PEERS: "localhost,127.0.0.1:29501",
        _INDEX: "last",
        "PET_NNODES": "0:3",
        "PET_MAX_RESTARTS": "many",
        "PET_NPROC_PER_NODE": "2",
    }
    with pytest.raises(ValueError, match="localhost") as error:
        settings.read(wrong)
    for name, value in wrong.items():
        assert f"{name}={value}" in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({**_LOCAL, _PEERS: "fd00::1:29502"}, r"=fd00::1:29502 is not host:port or \[IPv6"),
        ({**_POD, "PET_RDZV_ENDPOINT": "elsewhere:1"}, "PET_RDZV_ENDPOINT=elsewhere:1 is not"),
        ({**_POD, "HOSTNAME": "box"}, "HOSTNAME=box is not"),
        ({**_LOCAL, "PET_NNODES": "3:4"}, "PET_NNODES=3:4 .* there are only 2 workers, 0 to 1"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2: .* without torchrun"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        settings.read(wrong)
