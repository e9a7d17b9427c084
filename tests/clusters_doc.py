"""What docs/clusters.md shows, so that tests use that very text."""

import re
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).resolve().parent.parent / "docs" / "clusters.md"
_BLOCK = re.compile(r"^```yaml\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def documents(section: str) -> list[dict[str, Any]]:
    """Return the YAML documents of the section whose heading begins with `section`.

    Raises:
        ValueError: there is no such section, or none in it.
    """
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    found = [text for text in sections if text.startswith(section)]
    shown = [yaml.safe_load(body) for text in found for body in _BLOCK.findall(text)]
    if not shown:
        raise ValueError(f"{PAGE} shows no YAML under {section!r}")
    return shown


def role(name: str) -> dict[str, Any]:
    """Return the Role or ClusterRole of that name that the section on kubeconfig lists."""
    roles = {
        each["metadata"]["name"]: each
        for each in documents("kubeconfig")
        if each.get("kind") in {"Role", "ClusterRole"}
    }
    return roles[name]
