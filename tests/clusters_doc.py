"""The roles that docs/existing-cluster.md names, so that tests use those very files."""

from typing import Any

import yaml

from core.paths import CHECKOUT


def role(name: str) -> dict[str, Any]:
    """Return the Role or ClusterRole of that name.

    Raises:
        FileNotFoundError: there is none.
    """
    found: dict[str, Any] = yaml.safe_load((CHECKOUT / f"examples/roles/{name}.yaml").read_text())
    assert found["metadata"]["name"] == name
    return found
