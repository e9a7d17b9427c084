"""Azure's virtual machines with NVIDIA's GPUs: how many each size has.

The numbers are from the table of each series below
https://learn.microsoft.com/azure/virtual-machines/sizes/overview#gpu-accelerated. The files named
here are its sources: https://github.com/MicrosoftDocs/azure-compute-docs, in the directory
articles/virtual-machines/sizes/gpu-accelerated.
"""

from collections.abc import Mapping

GPUS: Mapping[str, int] = {
    # ncast4v3-series.md: T4 with 16 GB
    "Standard_NC4as_T4_v3": 1,
    "Standard_NC8as_T4_v3": 1,
    "Standard_NC16as_T4_v3": 1,
    "Standard_NC64as_T4_v3": 4,
    # nca100v4-series.md: A100 with 80 GB
    "Standard_NC24ads_A100_v4": 1,
    "Standard_NC48ads_A100_v4": 2,
    "Standard_NC96ads_A100_v4": 4,
    # ncadsh100v5-series.md: H100 with 94 GB
    "Standard_NC40ads_H100_v5": 1,
    "Standard_NC80adis_H100_v5": 2,
    # nvadsa10v5-series.md: A10 with 24 GB
    "Standard_NV36ads_A10_v5": 1,
    "Standard_NV36adms_A10_v5": 1,
    "Standard_NV72ads_A10_v5": 2,
    # ndasra100v4-series.md: A100 with 40 GB, InfiniBand
    "Standard_ND96asr_v4": 8,
    # ndh100v5-series.md: H100 with 80 GB, InfiniBand
    "Standard_ND96isr_H100_v5": 8,
}
"""`nvidia.com/gpu` of a node, by its size."""

PARTIAL = frozenset(
    {"Standard_NV6ads_A10_v5", "Standard_NV12ads_A10_v5", "Standard_NV18ads_A10_v5"}
)
"""Sizes with a part of a GPU (nvadsa10v5-series.md)."""
