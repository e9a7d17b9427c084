"""The roles that docs/existing-cluster.md shows, so that tests use that very text."""

import re
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).resolve().parent.parent / "docs/existing-cluster.md"
_BLOCK = re.compile(r"^```yaml\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def role(name: str) -> dict[str, Any]:
    """Return the Role or ClusterRole of that name.

    Raises:
        KeyError: the page shows none.
    """
    shown = [yaml.safe_load(body) for body in _BLOCK.findall(PAGE.read_text())]
    roles: dict[str, dict[str, Any]]
    roles = {each["metadata"]["name"]: each for each in shown if "metadata" in each}
    return roles[name]
