"""What the tracking server is made of, without a cluster."""

import base64
from typing import Any

import pytest

from core.manifests import Manifest
from infra.tracking.component import claims, database, server
from infra.tracking.settings import MLFLOW_REQUESTS, POSTGRES_REQUESTS


def deployments() -> list[Manifest]:
    _, mlflow = server("team", "registry/mlflow:1", has_database=True)
    _, postgres, _ = database("team", "registry/postgres:1", "hidden")
    return [mlflow, postgres]


def pod(deployment: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def container(deployment: Manifest) -> dict[str, Any]:
    [found] = pod(deployment)["containers"]
    assert isinstance(found, dict)
    return found


def environment(*, has_database: bool) -> dict[str, Any]:
    _, deployment = server("team", "registry/mlflow:1", has_database=has_database)
    return {each["name"]: each.get("value") for each in container(deployment)["env"]}


@pytest.mark.parametrize("deployment", deployments(), ids=["mlflow", "postgres"])
def test_the_restricted_level_admits_its_pod_which_has_no_rights(deployment: Manifest) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted."""
    found, own = pod(deployment), container(deployment)["securityContext"]
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    kinds = {kind for each in found["volumes"] for kind in each if kind != "name"}
    assert kinds <= {"emptyDir", "persistentVolumeClaim", "secret"}
    assert found["automountServiceAccountToken"] is False
    assert found["serviceAccountName"] == "slipway-job"


def test_its_pods_request_what_jobs_have_less_and_two_are_never_on_one_volume() -> None:
    found = [container(each)["resources"]["requests"] for each in deployments()]
    assert found == [MLFLOW_REQUESTS, POSTGRES_REQUESTS]
    assert {each["spec"]["strategy"]["type"] for each in deployments()} == {"Recreate"}
    names = [each["metadata"]["name"] for each in claims("n", "1Gi", None, has_database=True)]
    mounted = [pod(each)["volumes"][0]["persistentVolumeClaim"] for each in deployments()]
    assert [each["claimName"] for each in mounted] == names


def test_runs_are_in_sqlite_on_the_volume_or_in_the_database_by_its_secret() -> None:
    alone = environment(has_database=False)["MLFLOW_BACKEND_STORE_URI"]
    assert alone.startswith("sqlite:////data/")
    uri = environment(has_database=True)["MLFLOW_BACKEND_STORE_URI"]
    # Not psycopg, which SQLAlchemy takes by default and the image lacks.
    assert uri == "postgresql+psycopg2://mlflow:$(DATABASE_PASSWORD)@mlflow-database/postgres"
    *_, secret = database("team", "registry/postgres:1", "hidden")
    variables = {each["name"]: each for each in container(deployments()[0])["env"]}
    reference = variables["DATABASE_PASSWORD"]["valueFrom"]["secretKeyRef"]
    assert base64.b64decode(secret["data"][reference["key"]]) == b"hidden"
    assert secret["metadata"]["name"] == reference["name"]


def test_it_answers_by_its_own_names_and_localhost_alone_and_reports_to_nobody() -> None:
    found = environment(has_database=False)
    assert found["MLFLOW_DISABLE_TELEMETRY"] == found["DO_NOT_TRACK"] == "true"
    [hosts] = [each for each in container(deployments()[0])["args"] if "allowed-hosts" in each]
    names = hosts.partition("=")[2].split(",")
    assert {"localhost:*", "mlflow:5000", "mlflow.team.svc:5000"} <= {*names}
    assert "*" not in names
