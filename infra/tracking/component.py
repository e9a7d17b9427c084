"""Declare the tracking server: MLflow in the jobs' namespace."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from clusters.cluster import JOB_ACCOUNT, Cluster
from core import tokens
from core.declare import declare, declare_all
from core.manifests import Manifest, digest, rendered
from images.build.trainer import MLFLOW, POSTGRES
from images.resource import declared
from infra.kept import announce
from infra.tracking.settings import MLFLOW_REQUESTS, PORT, POSTGRES_REQUESTS, Tracking
from jobs.model import volumes
from jobs.run.resource import Claim

CLAIMS = {"mlflow": "slipway-tracking", "postgres": "slipway-tracking-database"}
_PASSWORD = "mlflow-database"  # noqa: S105 - the Secret's name


def track(
    settings: Tracking | None,
    cluster: Cluster,
    storage_class: str | None,
    *,
    removed_with_stack: bool,
    after: Sequence[pulumi.Resource],
) -> tuple[Mapping[str, str] | None, list[pulumi.Resource]]:
    """Declare the tracking server; `storage_class` is None for the cluster's default StorageClass.

    Returns a pair: the server's properties for `jobs.model.submission`, or None if there is no
    server; and the resources that jobs must depend on.
    """
    if settings is None:
        return None, []
    if not settings.is_installed:
        return settings.place, []
    if not removed_with_stack:
        announce("tracked runs", CLAIMS["mlflow"], settings.size, storage_class)
    parent = pulumi.ComponentResource(tokens.TRACKING_SERVER, "tracking")
    # `after` is not for the component: Pulumi can't skip a component whose dependency failed.
    inside = cluster.options(parent=parent, depends_on=[*after])
    namespace, target = cluster.namespace, cluster.image_target
    has_database = settings.database == "postgresql"
    kubeconfig: Output[str] = Output.secret(cluster.kubeconfig)
    objects = server(namespace, declared(MLFLOW, target).reference, has_database=has_database)
    stores = ("mlflow", "postgres") if has_database else ("mlflow",)
    claims = (
        volumes.claim(CLAIMS[each], namespace, settings.size, storage_class=storage_class)
        for each in stores
    )
    needed: list[pulumi.Resource] = [
        Claim(each, kubeconfig=kubeconfig, keeps_class=True, after=after) for each in claims
    ]
    if has_database:
        postgres = declared(POSTGRES, target).reference
        *others, password = database(namespace, postgres, secrets.token_hex(24))
        objects = [*others, *objects]
        # Keep the first password, the only one that opens the database; the state encrypts it.
        stays = ResourceOptions.merge(inside, ResourceOptions(ignore_changes=["data"]))
        needed.append(declare(password, stays))
    inside = ResourceOptions.merge(inside, ResourceOptions(depends_on=needed))
    created = declare_all(objects, inside)
    properties = {
        "kubeconfig": kubeconfig,
        "namespace": namespace,
        "deployments": [
            each["metadata"]["name"] for each in objects if each["kind"] == "Deployment"
        ],
        # Changes with the Deployments, so that an update waits for their new pods.
        "rollout": Output.from_input(objects).apply(digest),
    }
    own = ResourceOptions(
        parent=parent, depends_on=created, additional_secret_outputs=["kubeconfig"]
    )
    ready = pulumi.CustomResource(tokens.TRACKING_READY, "tracking", properties, own)
    parent.register_outputs({})
    return settings.place, [ready]


def server(namespace: str, image: pulumi.Input[str], *, has_database: bool) -> list[Manifest]:
    """Return MLflow's Service and Deployment, using SQLite or a separate database."""
    *objects, databases = _rendered("mlflow", namespace, image, MLFLOW_REQUESTS, port=str(PORT))
    _container(objects)["env"] += databases["postgresql" if has_database else "sqlite"]
    return objects


def database(namespace: str, image: pulumi.Input[str], password: str) -> list[Manifest]:
    """Return PostgreSQL's Service and Deployment, and the Secret with the database password."""
    encoded = base64.b64encode(password.encode()).decode()
    return _rendered("postgres", namespace, image, POSTGRES_REQUESTS, encoded=encoded)


def _rendered(
    name: str, namespace: str, image: pulumi.Input[str], requests: dict[str, str], **more: str
) -> list[Manifest]:
    names = {"namespace": namespace, "account": JOB_ACCOUNT, "password": _PASSWORD, **more}
    file = Path(__file__).with_name(f"{name}.yaml")
    objects = rendered(file, claim=CLAIMS[name], **names, **requests)
    _container(objects)["image"] = image
    return objects


def _container(objects: Sequence[Manifest]) -> dict[str, Any]:
    """Return the only container in the Deployment, the second object."""
    container: dict[str, Any] = objects[1]["spec"]["template"]["spec"]["containers"][0]
    return container
