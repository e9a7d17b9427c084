"""Storage for a stack's job files: a store in its cloud, or a volume in the cluster."""

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
    """The `slipway:outputs` settings, for files from jobs without `outputs`.

    Args:
        keep: True, the default, keeps these files after their pods are deleted.
        size: Size of the volume that the claim `slipway-kept` requests; it can be increased.
        storage_class: StorageClass for the volume; the cluster's default if not set. If set, the
            volume is used even in clusters whose cloud has a store.
        access_mode: ReadWriteMany if pods on several nodes can use the volume at the same time,
            which few storage classes support.
    """

    keep: bool = True
    size: Memory = "10Gi"
    storage_class: ObjectName | None = None
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteOnce"

    @property
    def is_chosen(self) -> bool:
        """True if the user set the volume's storage class or ReadWriteMany."""
        return self.storage_class is not None or self.access_mode == "ReadWriteMany"

    def why_not(self, capacity: Capacity | None) -> str | None:
        """Return why files can't be kept in a cluster with this capacity, or None if they can.

        A volume that only pods on one node can use would block jobs on several nodes:
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
    """Declare the storage for jobs' files; `capacity` is the cluster's, or None if unknown.

    Returns a pair: the location in the form that `jobs.model.places` uses, or None if files are not
    kept; and the resources that jobs must depend on.
    """
    if not settings.keep:
        return None, []
    if not settings.is_chosen:
        if cluster.store is not None:
            return cluster.store, []
        if why := cluster.no_volume or settings.why_not(capacity):
            pulumi.log.info(
                f"files from jobs without `outputs` are not kept: {why}. To keep them, set {KEY} "
                "to {storageClass: NAME, accessMode: ReadWriteMany}, with a storage class whose "
                "volumes all nodes can mount, or set the jobs' `outputs`"
            )
            return None, []
    chosen, mode = settings.storage_class, settings.access_mode
    namespace = cluster.namespace
    claim = volumes.claim(KEPT_CLAIM, namespace, settings.size, mode=mode, storage_class=chosen)
    if not removed_with_stack:
        announce("files from jobs without `outputs`", KEPT_CLAIM, settings.size, chosen)
    return VOLUME_URL, [Claim(claim, kubeconfig=cluster.kubeconfig, after=[after])]


def announce(what: str, claim: str, size: str, storage_class: str | None) -> None:
    """Log which claim in an existing cluster stores `what`, and that `make down` deletes it."""
    volume = f"{size} from {storage_class or 'the default StorageClass'}"
    text = f"{what} are kept in the claim {claim} ({volume}); `make down` deletes both"
    pulumi.log.info(as_typed(text))
