"""The YAML that lies beside this module, with its placeholders filled in. Pure."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import yaml


@cache
def load(name: str) -> list[Any]:
    """Return the documents of a file, placeholders and all. Every caller gets the same ones."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    # The C loader: the files are read in every `up`.
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def fill(document: Any, values: Mapping[str, object]) -> Any:
    """Return a document in whose texts `$name` has become the value of that name.

    Values are put in after YAML was read, so whatever is in them stays one text.

    Raises:
        KeyError: a placeholder has no value.
    """
    if isinstance(document, dict):
        return {key: fill(value, values) for key, value in document.items()}
    if isinstance(document, list):
        return [fill(item, values) for item in document]
    return Template(document).substitute(values) if isinstance(document, str) else document
