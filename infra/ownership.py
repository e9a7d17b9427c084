"""Which stack has made what there is only one of in a cluster.

A stack may stand in somebody else's cluster, beside other stacks. By its mark it knows its own
things again, also those of an `up` that was killed before it could write them down.
"""

import pulumi

from infra.manifests import Manifest

MADE_BY = "slipway.dev/stack"
"""The annotation."""


def stack() -> str:
    """Return what the running stack is called in `MADE_BY`."""
    return called(pulumi.get_project(), pulumi.get_stack())


def called(project: str, name: str) -> str:
    """Return what a project's stack is called in `MADE_BY`."""
    return f"{project}/{name}"


def marked(manifest: Manifest) -> Manifest:
    """Return `manifest` as the running stack's own."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), MADE_BY: stack()}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
