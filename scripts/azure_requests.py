"""Read Pulumi's requests to the azure-native plugin and the responses, removing secrets. Pure.

If PULUMI_DEBUG_GRPC is set, the engine logs the start and end of each call to a JSON Lines file:
https://github.com/pulumi/pulumi/blob/v3.274.1/sdk/go/pulumi-internal/rpcdebug/interceptors.go
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from core.manifests import read
from slipway.events import json_map

HIDDEN = "[secret]"  # replaces each secret in a report
CHANGES = frozenset({"Create", "Update", "Delete"})  # methods that change something in Azure
_METHOD = re.compile("/pulumirpc.ResourceProvider/(Create|Read|Update|Delete|Invoke)")
# https://github.com/pulumi/pulumi/blob/v3.274.1/sdk/go/common/resource/sig/sig.go
_SIGNATURE, _OF_HIDDENS = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
_REMOVED = read(Path(__file__).with_suffix(".yaml"))
_KEYS = re.compile("|".join(_REMOVED["keys"]), re.IGNORECASE)
_TEXTS = re.compile("|".join(_REMOVED["texts"]), re.DOTALL)


def requests(lines: Iterable[str], step: str) -> Iterator[dict[str, Any]]:
    """Yield each completed call to the azure-native plugin in a step's log, without secrets.

    The keys are `step`, `method`, `type` (the resource type, or the function), `name` (the
    resource's name in the program), `request`, `answer`, `errors` and `seconds`.
    """
    # The last line may be incomplete.
    ended = [each for each in map(json_map, lines) if each.get("progress") == "response_completed"]
    # A plugin may repeat a marked secret, unmarked, in an error or another response.
    secrets = sorted({text for each in ended for text in _secrets(each)}, key=len, reverse=True)
    for entry in ended:
        match, request = _METHOD.fullmatch(str(entry.get("method"))), entry.get("request") or {}
        # In a URN, a resource's type follows its parents' types. A function has a token instead.
        *_, types, name = str(request.get("urn", f"::{request.get('tok')}::")).split("::", 3)
        kind = types.rpartition("$")[2]
        if match is None or request.get("preview") or not kind.startswith("azure-native:"):
            continue
        texts = {"request": request, "answer": entry.get("response"), "errors": entry.get("errors")}
        yield {
            "step": step,
            "method": match[1],
            "type": kind,
            "name": name,
            **_clean(texts, secrets),
            "seconds": round(entry.get("duration", 0) / 1e9, 2),  # Go durations are in nanoseconds
        }


def _secrets(value: Any, *, inside: bool = False) -> Iterator[str]:
    """Yield the text of each secret in a value."""
    if isinstance(value, Mapping):
        marked = inside or value.get(_SIGNATURE) == _OF_HIDDENS
        for key, inner in value.items():
            if key != _SIGNATURE:
                yield from _secrets(inner, inside=marked or _KEYS.search(key) is not None)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, inside=inside)
    # Shorter text, such as `true`, may also occur where it is not secret.
    elif inside and isinstance(value, str) and len(value) >= 6:
        yield value


def _clean(value: Any, secrets: Iterable[str]) -> Any:
    """Return a value in which each secret is replaced by `HIDDEN`."""
    if isinstance(value, Mapping):
        if value.get(_SIGNATURE) == _OF_HIDDENS:
            return HIDDEN
        # A boolean or number shows only that a key exists.
        return {
            key: HIDDEN
            if _KEYS.search(key) and isinstance(inner, str | list | Mapping)
            else _clean(inner, secrets)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_clean(inner, secrets) for inner in value]
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return _TEXTS.sub(HIDDEN, value)
    return value
