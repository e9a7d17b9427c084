"""`kubernetes:yaml:decode`: the objects in a YAML text."""

from collections.abc import Iterator
from typing import Any

import yaml

from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import Object
from scripts.offline.kubernetes_standin.planning import in_namespace, is_namespaced

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Leaves dates as they are written: a manifest has no type for them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decode(text: str, default_namespace: str | None, cluster: Cluster | None) -> list[Object]:
    """Return every object in `text`; the items of a List count as objects.

    Raises:
        ValueError: it is no YAML, or a document in it is no object.
    """
    try:
        documents = list(yaml.load_all(text, _Loader))
    except yaml.YAMLError as error:
        raise ValueError(f"the text is no valid YAML: {error}") from None
    objects = [obj for document in documents for obj in _objects(document)]
    if not default_namespace:
        return objects
    return [
        in_namespace(obj, is_namespaced(cluster, Kind.of_object(obj)), default_namespace)
        for obj in objects
    ]


def _objects(document: Any) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not {"apiVersion", "kind"} <= document.keys():
        raise ValueError(f"a document is no object with apiVersion and kind: {document!r:.80}")
    if document["kind"].endswith("List") and "items" in document:
        for item in document["items"] or ():
            yield from _objects(item)
    else:
        yield document
