"""Pulumi's requests to azure-native's plugin and its answers, without the secrets in them. Pure.

PULUMI_DEBUG_GRPC has the engine write each call's begin and end into a file, as JSON a line:
https://github.com/pulumi/pulumi/blob/v3.274.1/sdk/go/pulumi-internal/rpcdebug/interceptors.go
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slipway.events import json_map

HIDDEN = "[secret]"  # what stands in a report in place of a secret
CHANGES = frozenset({"Create", "Update", "Delete"})  # methods that change something in Azure
_METHOD = re.compile("/pulumirpc.ResourceProvider/(Create|Read|Update|Delete|Invoke)")
# https://github.com/pulumi/pulumi/blob/v3.274.1/sdk/go/common/resource/sig/sig.go
_SIGNATURE, _OF_HIDDENS = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
_KEYS = re.compile(
    "token$|password|secret|kubeconfig|sharedkey|accesskey|primarykey|secondarykey|privatekey"
    "|connectionstring",
    re.IGNORECASE,
)
"""Properties whose text is a secret, whether or not the plugin marks it as one."""
_PATTERNS = re.compile(
    # A JSON Web Token, a key in PEM, a kubeconfig, and one in base64.
    r"eyJ[\w-]+\.[\w-]+\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----.*|apiVersion: v1\n.*"
    r"|YXBpVmVyc2lvbj[\w+/=]*",
    re.DOTALL,
)


def requests(lines: Iterable[str], step: str) -> Iterator[dict[str, Any]]:
    """Yield each finished call of azure-native's plugin in a step's record, without its secrets.

    Each has `step`, `method`, `type` (a resource's, or the function), `name` (of the resource, in
    the program), the `request`, the `answer`, `errors` and `seconds`.
    """
    # Half a line may be at the end.
    ended = [each for each in map(json_map, lines) if each.get("progress") == "response_completed"]
    # A plugin may repeat in an error, or in another answer, what it marked as a secret once.
    secrets = sorted({text for each in ended for text in _secrets(each)}, key=len, reverse=True)
    for entry in ended:
        called, asked = _METHOD.fullmatch(str(entry.get("method"))), entry.get("request") or {}
        # In a URN a resource's type follows those of its parents. A function has a token instead.
        *_, types, name = str(asked.get("urn", f"::{asked.get('tok')}::")).split("::", 3)
        kind = types.rpartition("$")[2]
        if called is None or asked.get("preview") or not kind.startswith("azure-native:"):
            continue
        texts = {"request": asked, "answer": entry.get("response"), "errors": entry.get("errors")}
        yield {
            "step": step,
            "method": called[1],
            "type": kind,
            "name": name,
            **_clean(texts, secrets),
            "seconds": round(entry.get("duration", 0) / 1e9, 2),  # Go's durations are nanoseconds
        }


def _secrets(value: Any, *, inside: bool = False) -> Iterator[str]:
    """Yield the texts in everything that is a secret."""
    if isinstance(value, Mapping):
        marked = inside or value.get(_SIGNATURE) == _OF_HIDDENS
        for key, inner in value.items():
            if key != _SIGNATURE:
                yield from _secrets(inner, inside=marked or _KEYS.search(key) is not None)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, inside=inside)
    # A shorter one, such as `true`, may stand elsewhere, too.
    elif inside and isinstance(value, str) and len(value) >= 6:
        yield value


def _clean(value: Any, secrets: Iterable[str]) -> Any:
    """Return a value with `HIDDEN` in place of each secret."""
    if isinstance(value, Mapping):
        if value.get(_SIGNATURE) == _OF_HIDDENS:
            return HIDDEN
        # What is no text only says whether there is to be a key at all.
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
        return _PATTERNS.sub(HIDDEN, value)
    return value
