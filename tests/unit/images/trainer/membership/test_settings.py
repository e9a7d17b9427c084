"""A worker's place among the others, from its environment."""

from pathlib import Path

import pytest

from slipway_trainer.membership import settings

_POD = {
    "PET_RDZV_ENDPOINT": "digits-worker-0:23456",
    "PET_NNODES": "2:3",
    "PET_MAX_RESTARTS": "4",
    "HOSTNAME": "digits-worker-2",
}
_LOCAL = {"SLIPWAY_ELASTIC_PEERS": "127.0.0.1:29501,127.0.0.1:29502", "SLIPWAY_ELASTIC_INDEX": "1"}


def _resolver(directory: Path, text: str) -> Path:
    path = directory / "resolv.conf"
    path.write_text(text)
    return path


def test_a_pod_finds_its_peers_by_the_jobs_name_in_its_own_namespace(tmp_path: Path) -> None:
    resolver = _resolver(
        tmp_path,
        "search team.svc.cluster.local svc.cluster.local example.net\nnameserver 10.0.0.10\n",
    )
    found = settings.read(_POD, resolver)
    assert (found.index, found.minimum, found.losses) == (2, 2, 4)
    assert found.peers == tuple(
        (f"digits-worker-{number}.team.svc.cluster.local.", 23456) for number in range(3)
    )
    assert len(found.peers) == 3


def test_without_a_clusters_search_domain_names_stay_as_they_are(tmp_path: Path) -> None:
    found = settings.read(_POD, _resolver(tmp_path, "search example.net\n"))
    assert found.peers[0] == ("digits-worker-0", 23456)


def test_a_job_may_be_called_after_a_worker(tmp_path: Path) -> None:
    names = {"PET_RDZV_ENDPOINT": "a-worker-0-worker-0:1", "HOSTNAME": "a-worker-0-worker-1"}
    found = settings.read({**_POD, **names}, _resolver(tmp_path, ""))
    assert found.index == 1
    assert found.peers[0] == ("a-worker-0-worker-0", 1)


def test_on_one_machine_the_peers_are_listed() -> None:
    found = settings.read(_LOCAL)
    assert found.peers == (("127.0.0.1", 29501), ("127.0.0.1", 29502))
    assert (found.index, found.minimum, found.losses) == (1, 1, settings.DEFAULT_LOSSES)


def test_an_ipv6_address_stands_in_brackets() -> None:
    peers = {"SLIPWAY_ELASTIC_PEERS": "[::1]:29501,[fd00::1]:29502"}
    assert settings.read({**_LOCAL, **peers}).peers == (("::1", 29501), ("fd00::1", 29502))
    with pytest.raises(ValueError, match=r"=fd00::1:29502 is not host:port or \[IPv6"):
        settings.read({**_LOCAL, "SLIPWAY_ELASTIC_PEERS": "fd00::1:29502"})


def test_with_neither_a_worker_is_alone() -> None:
    found = settings.read({})
    assert (found.index, found.minimum, len(found.peers), found.losses) == (0, 1, 1, 0)


def test_a_single_number_of_nodes_is_both_least_and_most() -> None:
    assert settings.read({**_LOCAL, "PET_NNODES": "2"}).minimum == 2


def test_all_problems_are_named_at_once() -> None:
    wrong = {
        "SLIPWAY_ELASTIC_PEERS": "localhost,127.0.0.1:29501",
        "SLIPWAY_ELASTIC_INDEX": "last",
        "PET_NNODES": "0:3",
        "PET_MAX_RESTARTS": "many",
        "PET_NPROC_PER_NODE": "2",
    }
    with pytest.raises(ValueError, match="localhost") as error:
        settings.read(wrong)
    for name, value in wrong.items():
        assert f"{name}={value}" in str(error.value)


def test_a_pod_whose_names_do_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"PET_RDZV_ENDPOINT=elsewhere:1 .*; HOSTNAME=box "):
        settings.read({"PET_RDZV_ENDPOINT": "elsewhere:1", "HOSTNAME": "box"})


@pytest.mark.parametrize("wrong", [{"PET_NNODES": "3:4"}, {"SLIPWAY_ELASTIC_INDEX": "2"}])
def test_more_workers_than_there_can_be_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="there are only 2 workers, 0 to 1") as error:
        settings.read({**_LOCAL, **wrong})
    assert next(iter(wrong.values())) in str(error.value)


def test_under_torchrun_it_says_how_to_start_it() -> None:
    with pytest.raises(ValueError, match=r"WORLD_SIZE=2: .* without torchrun"):
        settings.read({"WORLD_SIZE": "2"})
