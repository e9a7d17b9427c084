"""What is known of Azure's sizes."""

import pytest

from clusters.azure.facts import GPUS, cores, cores_for_pods, network


@pytest.mark.parametrize(
    ("size", "there"),
    [("D4s_v5", 4), ("NC24ads_A100_v4", 24), ("ND96isr_H100_v5", 96), ("E8-4s_v5", 4),
     ("D3_v2", None), ("A4_v2", None), ("NC16_A2", 16)],
)  # fmt: skip
def test_a_size_says_how_many_cores_there_are(size: str, there: int | None) -> None:
    assert cores(f"Standard_{size}") == there


def test_pods_get_no_cores_that_aks_keeps_for_itself() -> None:
    kept = [cores_for_pods(f"Standard_{size}") for size in ("D4s_v5", "D96s_v5", "A1")]
    assert [*map(str, kept)] == ["3.86", "95.26", "None"]


def test_a_size_with_infiniband_says_what_tcp_leaves_of_it() -> None:
    told = {size: network(size) for size in GPUS if network(size)}
    assert told.keys() == {size for size in GPUS if size.startswith("Standard_ND")}
    assert told["Standard_ND96isr_H100_v5"] == (
        "TCP only: at most 80 Gbit/s per node, not 3,200 as with InfiniBand"
    )
    assert network("Standard_ND999_v9") == "TCP only, because InfiniBand is not set up"
