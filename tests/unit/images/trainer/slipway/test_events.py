"""Who a process is, by what its environment says."""

import pytest

from slipway.events import own_index, own_rank

_POD = {"PET_RDZV_ENDPOINT": "digits-worker-0:23456", "HOSTNAME": "digits-worker-2"}


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        (_POD, 2),
        ({"SLIPWAY_ELASTIC_PEERS": "a:1,b:1", "SLIPWAY_ELASTIC_INDEX": "1"}, 1),
        ({}, 0),
        ({"SLIPWAY_ELASTIC_INDEX": "x"}, 0),
        ({"HOSTNAME": "a-b"}, 0),
    ],
)
def test_its_index_is_known_before_anything_else(environment: dict[str, str], index: int) -> None:
    assert own_index(environment) == index


def test_its_rank_is_the_one_it_was_given_and_otherwise_its_index() -> None:
    assert own_rank({**_POD, "RANK": "5"}) == 5
    assert own_rank({**_POD, "RANK": ""}) == 2
