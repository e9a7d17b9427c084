"""How many GPUs a node of each size has.

https://learn.microsoft.com/azure/aks/aksarc/deploy-gpu-node-pool, as of 2024-06-05, at second
hand: quoted elsewhere, and not compared with the page or a machine. What a machine really offers is
told by `az aksarc vmsize list --custom-location ID`.
"""

from collections.abc import Mapping

GPUS: Mapping[str, int] = {
    # NVIDIA T4
    "Standard_NK6": 1,
    "Standard_NK12": 2,
    # NVIDIA A2
    "Standard_NC4_A2": 1,
    "Standard_NC8_A2": 1,
    "Standard_NC16_A2": 2,
    "Standard_NC32_A2": 2,
    # NVIDIA A16
    "Standard_NC4_A16": 1,
    "Standard_NC8_A16": 1,
    "Standard_NC16_A16": 2,
    "Standard_NC32_A16": 2,
}
CORES: Mapping[str, int] = {
    "Standard_NK6": 6,
    "Standard_NK12": 12,
    "Standard_NC4_A2": 4,
    "Standard_NC8_A2": 8,
    "Standard_NC16_A2": 16,
    "Standard_NC32_A2": 32,
    "Standard_NC4_A16": 4,
    "Standard_NC8_A16": 8,
    "Standard_NC16_A16": 16,
    "Standard_NC32_A16": 32,
}
"""Of the same sizes, by the same tables; what AKS keeps of them for itself is not told."""
