"""Which pool AKS's autoscaler grows first, where a pod may be on nodes of several."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import yaml

from clusters.autoscaler import NAMESPACE
from core.manifests import MANAGED_BY

if TYPE_CHECKING:
    from core.manifests import Manifest

CONFIG_MAP = "cluster-autoscaler-priority-expander"


def priorities(pools: Collection[str]) -> tuple[Manifest, ...]:
    """Return the ConfigMap of the autoscaler's expander `priority`; nothing below two pools.

    The highest priority wins, of all pools whose names match one of its patterns. A pool that no
    pattern matches is not grown, and without the ConfigMap none is.
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md

    Args:
        pools: Names of the pools that pods may be on, the preferred one first.
    """
    if len(pools) < 2:
        return ()
    first, *_ = pools
    # AKS calls a pool's scale set aks-<pool>-<8 digits>-vmss.
    patterns = {20: [f"^aks-{first}-"], 10: [".*"]}
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE, "labels": dict(MANAGED_BY)},
            "data": {"priorities": yaml.safe_dump(patterns, sort_keys=False)},
        },
    )
