"""Which tests one process runs, one after the other, when `make test` has several.

What shares a stack or a cluster is one group; whatever else a file shares is its own affair. The
groups are started in this order: first what makes the trainer's image, then the longest.
"""

from collections.abc import Mapping
from pathlib import Path

BY_FIXTURE: Mapping[str, str] = {
    "live_stack": "dev",
    "spare_stack": "spare",
    "mortal_stack": "spare",
}
BY_FILE: Mapping[str, tuple[str, ...]] = {
    "dev": (),
    "runs-1": ("runs/test_failing", "runs/test_cached", "engine/test_run_", "engine/test_gpu"),
    "runs-2": ("runs/", "engine/test_elastic"),
    "trainer-1": (
        "trainer/test_e",
        "trainer/test_j",
        "trainer/test_l",
        "trainer/test_o",
        "trainer/test_p",
        "trainer/test_t",
    ),
    "embedded": (
        "engine/test_azure",
        "engine/test_clusters_kubeconfig",
        "engine/test_embedded_cluster",
    ),
    "trainer-2": ("trainer/",),
    "spare": (),
    "others": ("engine/",),
    "real-kind": ("local/test_real_kind",),
    "local": ("local/",),
    "browser": ("browser/",),
}
"""What the paths of a group's files begin with; the first one that fits."""


def group(path: Path, fixtures: list[str]) -> str | None:
    """Return the group of a test; None for one that needs nothing that another one has.

    Args:
        path: Of its file, below tests/.
        fixtures: What it uses.
    """
    for fixture, name in BY_FIXTURE.items():
        if fixture in fixtures:
            return name
    for name, beginnings in BY_FILE.items():
        if str(path).startswith(beginnings):
            return name
    return None
