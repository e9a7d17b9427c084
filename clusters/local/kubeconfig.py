"""A tool's kubeconfig, reduced to what it takes to connect, so that it changes only with that."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_FILES = ("certificate-authority", "client-certificate", "client-key")


def alone(text: str, context: str) -> str:
    """Return the kubeconfig of one context, with the files that it names in it.

    What tools note besides, such as when they wrote it, would look like a change on every `up`.

    Args:
        text: As the tool wrote it.
        context: Which of its contexts.

    Raises:
        ValueError: it has no such context.
        OSError: a file that it names can't be read.
    """
    document = yaml.safe_load(text) or {}
    pair = _entry(document, "contexts", "context", context)
    cluster = _embedded(_entry(document, "clusters", "cluster", pair["cluster"]))
    user = _embedded(_entry(document, "users", "user", pair["user"]))
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": context, "user": user}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "current-context": context,
        },
        sort_keys=False,
    )


def _entry(document: Mapping[str, Any], section: str, part: str, name: str) -> dict[str, Any]:
    entries = document.get(section) or []
    found = next((each[part] for each in entries if each["name"] == name), None)
    if found is None:
        there = ", ".join(str(each["name"]) for each in entries) or "none"
        raise ValueError(f"the kubeconfig has no {part} {name!r}; there is: {there}")
    return dict(found)


def _embedded(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry whose files are in it, without the notes of tools."""
    kept = {key: value for key, value in entry.items() if key not in {*_FILES, "extensions"}}
    for name in _FILES:
        if name in entry:
            kept[f"{name}-data"] = base64.b64encode(Path(entry[name]).read_bytes()).decode()
    return kept
