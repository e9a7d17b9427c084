"""Where a stack keeps its jobs' files: a store of its cloud, or a volume of the cluster."""

from typing import Literal

import pulumi
from pydantic.dataclasses import dataclass

from clusters.cluster import ONE_AT_A_TIME, Cluster
from clusters.nodes import Capacity
from core.fields import CONFIG, Memory
from core.manifests import KEPT_CLAIM
from core.wording import as_typed
from jobs.model import volumes
from jobs.model.fields import ObjectName
from jobs.model.places import VOLUME_URL
from jobs.run.resource import Claim

KEY = "slipway:outputs"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class KeptOutputs:
    """The settings of `slipway:outputs`: where jobs without `outputs` keep their files.

    Args:
        keep: Whether they keep them.
        size: Of the volume, which the claim `slipway-kept` gets; it may grow.
        storage_class: Of the volume: the cluster's default one unless said. With one that is named,
            the volume is used also where a stack would keep files in its cloud's store.
        access_mode: Whether pods on several nodes can use it at the same time, which few classes
            offer.
    """

    keep: bool = True
    size: Memory = "10Gi"
    storage_class: ObjectName | None = None
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteOnce"

    @property
    def is_chosen(self) -> bool:
        """Whether the user has chosen a volume that suits the cluster."""
        return self.storage_class is not None or self.access_mode == "ReadWriteMany"

    def why_not(self, capacity: Capacity | None) -> str | None:
        """Return why files are not kept in a cluster of that capacity; None where they may be.

        A volume that pods can use on one node at a time would hold up jobs on several ones:
        https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
        """
        if not self.keep:
            return "`keep` is false"
        if self.is_chosen or capacity is None or capacity.nodes == 1:
            return None
        return f"jobs run on {capacity.nodes} nodes, and {ONE_AT_A_TIME}"


def keep(
    settings: KeptOutputs,
    cluster: Cluster,
    capacity: Capacity | None,
    *,
    removed_with_stack: bool,
    after: pulumi.Resource,
) -> tuple[str | None, list[pulumi.Resource]]:
    """Declare what it takes to keep files, in a cluster of that capacity, None if not known.

    Returns the place as `jobs.model.places` has it, None without, and what jobs depend on.
    """
    if not settings.keep:
        return None, []
    if not settings.is_chosen:
        if cluster.store is not None:
            return cluster.store, []
        if why := cluster.no_volume or settings.why_not(capacity):
            pulumi.log.info(
                f"files of jobs without `outputs` are not kept: {why}. To keep them, set {KEY} to "
                "{storageClass: NAME, accessMode: ReadWriteMany} with a class whose volumes all "
                "nodes can use, or give the jobs `outputs`"
            )
            return None, []
    chosen, mode = settings.storage_class, settings.access_mode
    namespace = cluster.namespace
    claim = volumes.claim(KEPT_CLAIM, namespace, settings.size, mode=mode, storage_class=chosen)
    if not removed_with_stack:
        announce("files of jobs without `outputs`", KEPT_CLAIM, settings.size, chosen)
    return VOLUME_URL, [Claim(claim, kubeconfig=cluster.kubeconfig, after=[after])]


def announce(what: str, claim: str, size: str, storage_class: str | None) -> None:
    """Log on which claim something is kept in a cluster that stays, and what `make down` does."""
    volume = f"{size} of {storage_class or 'the default StorageClass'}"
    text = f"{what} are kept on the claim {claim} ({volume}), which `make down` deletes with them"
    pulumi.log.info(as_typed(text))
