"""Which of a cluster's pools grows first."""

import re

import yaml

from clusters.aks.nodes import priorities


def test_the_autoscaler_prefers_the_first_pool_and_may_grow_all_others() -> None:
    assert priorities([]) == priorities(["gpu"]) == ()
    (made,) = priorities(["gpu", "gpufallback"])
    patterns = yaml.safe_load(made["data"]["priorities"])
    best = {
        name: max(
            priority
            for priority, some in patterns.items()
            if any(re.search(each, f"aks-{name}-12345678-vmss") for each in some)
        )
        for name in ("gpu", "gpufallback", "system")
    }
    assert best["gpu"] > best["gpufallback"] == best["system"] > 0
