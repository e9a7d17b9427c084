"""Keep secret in the state what came in as a secret, and every Secret's content."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from pulumi.provider.experimental.property_value import PropertyValue

from scripts.offline.kubernetes_standin.manifest import Properties

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MASK = "[secret]"
# Shorter texts occur by chance in an error, which would become unreadable.
_SHORTEST_MASKED = 4


def conceal(outputs: Properties, inputs: Mapping[str, PropertyValue]) -> Properties:
    """Mark in `outputs` what is secret in `inputs`, and the content of a Secret.

    A list is secret as a whole as soon as one of its items is: the server may reorder it.
    """
    concealed = {
        name: _conceal(value, inputs[name]) if name in inputs else value
        for name, value in outputs.items()
    }
    kind = outputs.get("kind")
    if kind is not None and kind.value == "Secret":
        for name in ("data", "stringData"):
            if name in concealed:
                concealed[name] = concealed[name].with_secret(True)
        # `kubectl apply` keeps a copy of the whole Secret in an annotation.
        if _LAST_APPLIED in str(concealed.get("metadata")):
            concealed["metadata"] = concealed["metadata"].with_secret(True)
    return concealed


def _conceal(output: PropertyValue, given: PropertyValue) -> PropertyValue:
    both_maps = isinstance(output.value, Mapping) and isinstance(given.value, Mapping)
    if both_maps and not given.is_secret:
        outputs, inputs = (cast(Mapping[str, PropertyValue], of.value) for of in (output, given))
        return PropertyValue(conceal(dict(outputs), inputs))
    return output.with_secret(True) if given.contains_secret() else output


def mask(text: str, *sources: Mapping[str, PropertyValue]) -> str:
    """Return `text`, the API server's words, without the secrets that `sources` hold."""
    secrets = {
        secret
        for source in sources
        for value in source.values()
        for secret in _texts(value, inside=False)
    }
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, base64.b64encode(secret.encode()).decode()):
            if len(form) >= _SHORTEST_MASKED:
                text = text.replace(form, _MASK)
    return text


def _texts(value: PropertyValue, *, inside: bool) -> Iterator[str]:
    inside = inside or value.is_secret
    if isinstance(value.value, str):
        if inside:
            yield value.value
    elif isinstance(value.value, Mapping):
        for inner in value.value.values():
            yield from _texts(inner, inside=inside)
    elif isinstance(value.value, Sequence):
        for item in cast(Sequence[PropertyValue], value.value):
            yield from _texts(item, inside=inside)
    elif inside and isinstance(value.value, float):
        yield f"{value.value:g}"
