"""Prebuilt images, in a registry that the cluster can read: a target of the kind `there`.

    {"kind": "there", "trainer": "example.org/trainer:1", "otherwise": {"kind": "registry", …}}

Nothing is built for them and nothing is pushed. What it does not name comes by the target
`otherwise`, where it has one. The program knows its names in advance, so no resource needs it.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

KIND = "there"
KEYS: Mapping[str, str] = {
    "slipway-trainer": "trainer",
    "slipway-trainer-cifar": "trainer",
    "slipway-trainer-cuda": "trainerCuda",
    "slipway-training-operator": "trainingOperator",
    "slipway-tcp-wait": "tcpWait",
}
"""By which key it names each image that is built here otherwise."""
_OTHERWISE = "otherwise"


class NotPrebuilt(pulumi.RunError):
    """An image that a stack needs is not prebuilt, and no other way to bring it in exists."""


def given(target: Mapping[str, Any], name: str) -> str | None:
    """Return what a pod calls the image of that name; None when it has to be brought in."""
    if target.get("kind") != KIND or name not in KEYS:
        return None
    reference = target.get(KEYS[name])
    return None if reference is None else str(reference)


def way_in(target: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the target by which the image of that name, which isn't prebuilt, is brought in.

    Raises:
        NotPrebuilt: no such target is configured.
    """
    if target.get("kind") != KIND:
        return target
    way = target.get(_OTHERWISE)
    if way is None:
        named = sorted(key for key in target if key != "kind")
        what = (
            f"name it as {KEYS[name]!r}" if name in KEYS else "give the job an `image`, no `build`"
        )
        raise NotPrebuilt(
            f"the image {name} is not among the prebuilt ones ({', '.join(named) or 'none'}), "
            f"and the cluster's settings name no registry to push it to: {what}, or name a registry"
        )
    return dict(way)
