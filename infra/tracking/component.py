"""The tracking server in a Pulumi program: MLflow in the jobs' namespace, where a stack has it."""

import secrets
from collections.abc import Mapping, Sequence

import pulumi
from pulumi import Output, ResourceOptions

from clusters.cluster import Cluster
from core import tokens
from core.declare import declare, declare_all
from core.manifests import digest
from images.build.trainer import MLFLOW, POSTGRES
from images.resource import declared
from infra.tracking import manifests
from infra.tracking.settings import Tracking
from jobs.run.resource import Claim

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
        super().__init__(tokens.TRACKING_SERVER, "tracking", None, opts)
        namespace, target = cluster.namespace, cluster.image_target
        has_database = settings.database == "postgresql"
        kubeconfig: Output[str] = Output.secret(cluster.kubeconfig)
        claims = manifests.claims(
            namespace, settings.size, storage_class, has_database=has_database
        )
        image = declared(MLFLOW, target).reference
        objects = manifests.server(namespace, image, has_database=has_database)
        child = ResourceOptions(parent=self, depends_on=[*after])
        needed: list[pulumi.Resource] = [
            Claim(each, kubeconfig=kubeconfig, after=after) for each in claims
        ]
        if has_database:
            database = manifests.database(namespace, declared(POSTGRES, target).reference)
            objects = [*database, *objects]
            # The first password stays: no other opens the database. It is encrypted in the state.
            stays = ResourceOptions.merge(child, ResourceOptions(ignore_changes=["data"]))
            generated = secrets.token_hex(_PASSWORD_BYTES)
            needed.append(declare(manifests.password(namespace, generated), stays))
        inside = ResourceOptions.merge(child, ResourceOptions(depends_on=needed))
        made = declare_all(objects, inside)
        properties = {
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "deployments": [
                each["metadata"]["name"] for each in objects if each["kind"] == "Deployment"
            ],
            # Changes with the Deployments, so that their new pods are waited for.
            "rollout": Output.from_input(objects).apply(digest),
        }
        own = ResourceOptions(depends_on=made, additional_secret_outputs=["kubeconfig"])
        ready = tokens.TRACKING_READY  # see infra.tracking.tracking_ready
        self.ready = pulumi.CustomResource(
            ready, "tracking", properties, ResourceOptions.merge(child, own)
        )
        self.register_outputs({})


def track(  # noqa: PLR0913  # what the server is made of, and when
    settings: Tracking | None,
    cluster: Cluster,
    storage_class: str | None,
    *,
    removed_with_stack: bool,
    after: Sequence[pulumi.Resource],
    opts: ResourceOptions,
) -> tuple[Mapping[str, str] | None, list[pulumi.Resource]]:
    """Declare what it takes to track runs, after the jobs' namespace.

    `storage_class` is that of the server's volumes, the cluster's default one with None;
    `removed_with_stack` says whether the cluster is. Returns the place as `jobs.model.submission`
    has it, None where runs are not tracked, and what jobs depend on.
    """
    if settings is None:
        return None, []
    if not settings.is_installed:
        return settings.place, []
    if not removed_with_stack:
        pulumi.log.info(
            f"tracked runs are kept on the claim {manifests.CLAIM} ({settings.size} of "
            f"{storage_class or 'the default StorageClass'}), which `make down` deletes with them"
        )
    server = TrackingServer(settings, cluster, storage_class, after=after, opts=opts)
    return settings.place, [server.ready]
