"""In what the manifests of one job may differ from cluster to cluster, and in what they do."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_POD = r"spec\.pytorchReplicaSpecs\.\w+\.template\.spec"
_LABELS = r"(spec\.pytorchReplicaSpecs\.\w+\.template\.)?metadata\.labels"
_CONTAINER = rf"{_POD}\.(initC|c)ontainers\[[\w-]+\]"
ALLOWED = {
    # Each cluster's images are called after where they are.
    rf"{_CONTAINER}\.image": "the image's name",
    # The nodes with GPUs: how they are asked for, and what keeps other pods off them.
    rf"{_POD}\.nodeSelector(\..+)?": "labels of the nodes",
    rf"{_POD}\.tolerations(\[.+)?": "taints of the nodes",
    rf"{_CONTAINER}\.env\[(NCCL|TORCH_NCCL|GLOO)_\w+\]\.value": "how NCCL and Gloo find each other",
    # Where nodes have to be made first, ranks wait for each other for longer.
    rf"{_CONTAINER}\.args\[--timeout\]": "how long ranks wait for each other",
    # Azure's admission gives pods of this label what it takes to be the job's identity there.
    rf"{_LABELS}\.azure\.workload\.identity/use": "who it is to Azure",
    # A private registry's.
    rf"{_POD}\.imagePullSecrets(\[.+)?": "who may pull the image",
    # A volume or a store, where the cluster has one; what is kept is copied before the pod ends.
    rf"{_CONTAINER}\.env\[SLIPWAY_KEPT\]\..+": "where files are kept",
    rf"({_CONTAINER}\.volumeMounts|{_POD}\.volumes)\[slipway-kept\]\..+": "where files are kept",
    rf"{_POD}\.terminationGracePeriodSeconds": "where files are kept",
    # A namespace that is there can be named.
    r"metadata\.namespace": "the namespace",
}
"""Patterns of paths, and what they are of. Everything else is the same wherever a job runs."""

_OPTION = re.compile(r"--[\w-]+")
_ABSENT = object()


def strays(manifest: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the paths in which two manifests differ and must not."""
    one, two = dict(_leaves(manifest)), dict(_leaves(other))
    differing = sorted(
        path for path in one.keys() | two.keys() if one.get(path, _ABSENT) != two.get(path, _ABSENT)
    )
    return [path for path in differing if not any(re.fullmatch(each, path) for each in ALLOWED)]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its path. What has a name is found by it, wherever it stands."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for key, each in _keyed(value):
            yield from _leaves(each, f"{path}[{key}]")
    else:
        yield path, value


def _keyed(items: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield items of a list by name; an option of a command line takes what follows with it."""
    if all(isinstance(each, Mapping) and "name" in each for each in items):
        yield from ((each["name"], each) for each in items)
        return
    place = 0
    while place < len(items):
        item, following = items[place], items[place + 1 : place + 2]
        is_pair = isinstance(item, str) and _OPTION.fullmatch(item) is not None
        if is_pair and following and not str(following[0]).startswith("--"):
            yield str(item), following[0]
            place += 2
        elif is_pair:
            yield str(item), True
            place += 1
        else:
            yield str(place), item
            place += 1
