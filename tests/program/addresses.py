"""Whether anything that a program declares leads to the internet."""

import re
from collections.abc import Iterator, Mapping, Set
from ipaddress import ip_address
from typing import Any

from tests.program.declared import Program

_TOP_LEVEL = (
    "ai|app|azure|biz|build|cloud|cn|co|com|de|dev|edu|eu|gg|goog|gov|info|io|ms|net|nvidia|org"
    "|run|sh|uk|us"
)
_HOST = re.compile(
    rf"(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:{_TOP_LEVEL})(?![\w-])(?!\.\w)",
    re.IGNORECASE,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/\s@\"']*@)?([^/\s:\"']+)", re.IGNORECASE)
_NUMBERS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_IMAGES = frozenset({"image", "reference", "pinned", "trainer"})
_TEXTS = frozenset({"description", "installHint"})
"""What a person reads and no program follows."""
_GROUPS = ("kubeflow.org", "k8s.io", "kubernetes.io", "nvidia.com", "slipway.dev")
"""Whose names Kubernetes' objects bear; they are names, and nobody resolves them."""
_NAMES = frozenset(
    {
        *("apiVersion", "apiGroup", "apiGroups", "fieldPath", "group", "key", "name"),
        *("resourceNames", "type"),
    }
)
"""Where such a name may stand."""


def public(program: Program, private: Set[str]) -> list[str]:
    """Return every address that is not of `private` hosts, with where it is declared.

    An image without a host in its name is one of a public registry: container engines put it there.
    """
    return [
        f"{resource.name} ({resource.type}) {path}: {found}"
        for resource in program.resources
        for path, key, text in _strings(resource.inputs)
        if ".ipBlock.except[" not in path  # what may not be reached
        for found in _public(key, text, private)
    ]


def _public(key: str, text: str, private: Set[str]) -> Iterator[str]:
    if key in _TEXTS:
        return
    if key in _IMAGES and text and text.partition("/")[0] not in private | {"localhost"}:
        yield text
    hosts = {*_HOST.findall(text), *_URL.findall(text)} - private
    for host in sorted(each for each in hosts if not _NUMBERS.fullmatch(each)):
        is_name = key in _NAMES and host.endswith(_GROUPS)
        if not is_name and not host.endswith((".internal", ".private", ".svc", ".local")):
            yield host
    for numbers in _NUMBERS.findall(text):
        if ip_address(numbers).is_global:
            yield numbers


def _strings(value: Any, path: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each text with its path and the key that it stands under, lists' items too."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _strings(each, f"{path}.{name}", str(name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _strings(each, f"{path}[{index}]", key)
    elif isinstance(value, str):
        yield path, key, value
