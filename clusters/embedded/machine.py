"""What this machine, as the cluster's one node, has for jobs."""

import os
from decimal import Decimal

from clusters import training_operator
from clusters.capacity import Capacity
from clusters.embedded.addons import coredns
from core.quantities import cores, size

SYSTEM_RESERVED = "512Mi"
"""Memory for the cluster's own programs, which are no pods."""
KEPT_FREE = "100Mi"
"""Memory below which pods are evicted."""
_OTHERS = (coredns.REQUESTS, training_operator.REQUESTS)
"""What the pods ask for that are there besides the jobs'."""


def capacity() -> Capacity:
    """Return the machine's cores and memory, less what the kubelet and other pods have of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    reserved = sum(map(size, (SYSTEM_RESERVED, KEPT_FREE)))
    return Capacity(
        cpu=Decimal(os.cpu_count() or 1) - sum(cores(each["cpu"]) for each in _OTHERS),
        memory=memory - reserved - sum(size(each["memory"]) for each in _OTHERS),
        gpus=0,
        nodes=1,
    )
