"""The tracking server in a Pulumi program: MLflow in the jobs' namespace, where a stack has it."""

import secrets
from collections.abc import Mapping, Sequence

import pulumi
from pulumi import ResourceOptions

from clusters.cluster import Cluster
from images.build.trainer import MLFLOW, POSTGRES
from images.resource import declared
from infra.declare import declare, declare_all
from infra.tracking import manifests
from infra.tracking.settings import Tracking
from jobs.resource import Claim

_LIMITS = pulumi.CustomTimeouts(create="5m", update="5m", delete="60s")
"""Pulumi waits that long for a pod that is ready, and shows meanwhile what keeps it from that."""
_PASSWORD_BYTES = 24


class TrackingServer(pulumi.ComponentResource):
    """MLflow's server, and its PostgreSQL where the settings have one.

    Each of its resources depends on what is `after` them, the namespace of the jobs, since Pulumi
    can't skip a component whose dependency has failed.
    """

    ready: pulumi.Resource
    """What is declared after it finds a server that answers."""

    def __init__(
        self,
        settings: Tracking,
        cluster: Cluster,
        storage_class: str | None,
        *,
        after: Sequence[pulumi.Resource],
        opts: ResourceOptions,
    ) -> None:
        super().__init__("slipway:infra:TrackingServer", "tracking", None, opts)
        namespace, has_database = cluster.namespace, settings.database == "postgresql"
        claims = manifests.claims(
            namespace, settings.size, storage_class, has_database=has_database
        )
        needed: list[pulumi.Resource] = [*after]
        needed += [Claim(each, kubeconfig=cluster.kubeconfig, after=after) for each in claims]
        child = ResourceOptions(parent=self, custom_timeouts=_LIMITS)
        if has_database:
            # The first one stays: with the stack's state it is encrypted, and another would not
            # open the database.
            stays = ResourceOptions(parent=self, depends_on=needed, ignore_changes=["stringData"])
            generated = secrets.token_hex(_PASSWORD_BYTES)
            needed.append(declare(manifests.password(namespace, generated), stays))
            image = declared(POSTGRES, cluster.image_target).reference
            database = manifests.database(namespace, image)
            after_password = ResourceOptions(depends_on=[*needed])
            needed += declare_all(database, ResourceOptions.merge(child, after_password))
        image = declared(MLFLOW, cluster.image_target).reference
        server = manifests.server(namespace, image, has_database=has_database)
        child = ResourceOptions.merge(child, ResourceOptions(depends_on=needed))
        _, self.ready = declare_all(server, child)
        self.register_outputs({})


def track(  # noqa: PLR0913  # what the server is made of, and when
    settings: Tracking | None,
    cluster: Cluster,
    storage_class: str | None,
    *,
    goes: bool,
    after: Sequence[pulumi.Resource],
    opts: ResourceOptions,
) -> tuple[Mapping[str, str] | None, list[pulumi.Resource]]:
    """Declare what it takes to track runs, after the jobs' namespace.

    `storage_class` is that of the server's volumes, the cluster's default one with None, and `goes`
    says whether the cluster is removed with the stack.

    Returns:
        The place as `jobs.spec.tracked` has it, None where runs are not tracked; and what has to
        exist before a job runs.
    """
    if settings is None:
        return None, []
    if not settings.is_installed:
        return settings.place, []
    if not goes:
        pulumi.log.info(
            f"tracked runs are kept on the claim {manifests.CLAIM} ({settings.size} of "
            f"{storage_class or 'the default StorageClass'}), which `make down` deletes with them"
        )
    server = TrackingServer(settings, cluster, storage_class, after=after, opts=opts)
    return settings.place, [server.ready]
