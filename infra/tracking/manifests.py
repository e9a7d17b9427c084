"""The tracking server and its PostgreSQL: YAML files with an image, a database and their claims."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters.cluster import JOB_ACCOUNT
from core.manifests import MANAGED_BY, Manifest, rendered
from jobs.model import volumes

if TYPE_CHECKING:  # The command line needs the names here, and no Pulumi.
    from pulumi import Input

NAME, PORT = "mlflow", 5000
"""Of the Service by which ranks and `make ui` reach the server."""
SERVER_URL = f"http://{NAME}:{PORT}"
CLAIM, DATABASE_CLAIM = "slipway-tracking", "slipway-tracking-database"
PASSWORD = "mlflow-database"  # noqa: S105 - the Secret's name
MLFLOW_REQUESTS = {"cpu": "50m", "memory": "384Mi"}
POSTGRES_REQUESTS = {"cpu": "20m", "memory": "64Mi"}
_HERE = Path(__file__).parent


def server(namespace: str, image: Input[str], *, has_database: bool) -> list[Manifest]:
    """Return the Service and the Deployment of MLflow, with SQLite or with a database beside it.

    Its runs, unless those are in that, and its artifacts are on the claim `CLAIM`.
    """
    port = str(PORT)
    *objects, databases = _rendered("mlflow", namespace, image, MLFLOW_REQUESTS, port=port)
    environment = _container(objects)["env"]
    environment += databases["postgresql" if has_database else "sqlite"]
    return objects


def database(namespace: str, image: Input[str]) -> list[Manifest]:
    """Return the Service and the Deployment of PostgreSQL, whose data are on `DATABASE_CLAIM`."""
    return _rendered("postgres", namespace, image, POSTGRES_REQUESTS)


def password(namespace: str, value: str) -> Manifest:
    """Return the Secret with which MLflow gets into its PostgreSQL."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": PASSWORD, "namespace": namespace, "labels": dict(MANAGED_BY)},
        # Not `stringData`, which Pulumi's provider would turn into this before it compares.
        "data": {"password": base64.b64encode(value.encode()).decode()},
    }


def claims(
    namespace: str, size: str, storage_class: str | None, *, has_database: bool
) -> Iterator[Manifest]:
    """Yield the claims of the server's volumes, by the cluster's default class without another."""
    for name in (CLAIM, *([DATABASE_CLAIM] if has_database else [])):
        yield volumes.claim(name, namespace, size, storage_class=storage_class)


def _rendered(
    name: str, namespace: str, image: Input[str], requests: dict[str, str], **more: str
) -> list[Manifest]:
    claim = CLAIM if name == NAME else DATABASE_CLAIM
    names = {"namespace": namespace, "account": JOB_ACCOUNT, "claim": claim, "password": PASSWORD}
    objects = rendered(_HERE / f"{name}.yaml", **names, **requests, **more)
    _container(objects)["image"] = image
    return objects


def _container(objects: Sequence[Manifest]) -> dict[str, Any]:
    """Return the only container of the Deployment, the second object."""
    container: dict[str, Any] = objects[1]["spec"]["template"]["spec"]["containers"][0]
    return container
