"""What the tracking server is made of, without a cluster."""

import base64
from typing import Any

import pytest

from core.manifests import Manifest
from infra.tracking.component import CLAIMS, database, server
from infra.tracking.settings import MLFLOW_REQUESTS, POSTGRES_REQUESTS
from tests.unit.jobs_declared import variables

_, MLFLOW = server("team", "registry/mlflow:1", has_database=True)
_, ALONE = server("team", "registry/mlflow:1", has_database=False)
_, POSTGRES, SECRET = database("team", "registry/postgres:1", "hidden")


def pod(deployment: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def container(deployment: Manifest) -> dict[str, Any]:
    [found] = pod(deployment)["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("deployment", [MLFLOW, POSTGRES], ids=["mlflow", "postgres"])
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
    for deployment, requests, name in zip(
        (MLFLOW, POSTGRES), (MLFLOW_REQUESTS, POSTGRES_REQUESTS), CLAIMS.values(), strict=True
    ):
        assert container(deployment)["resources"]["requests"] == requests
        assert deployment["spec"]["strategy"]["type"] == "Recreate"
        assert pod(deployment)["volumes"][0]["persistentVolumeClaim"]["claimName"] == name


def test_runs_are_in_sqlite_on_the_volume_or_in_the_database_by_its_secret() -> None:
    assert variables(pod(ALONE))["MLFLOW_BACKEND_STORE_URI"].startswith("sqlite:////data/")
    found = variables(pod(MLFLOW))
    # Not psycopg, which SQLAlchemy takes by default and the image lacks.
    uri = "postgresql+psycopg2://mlflow:$(DATABASE_PASSWORD)@mlflow-database/postgres"
    assert found["MLFLOW_BACKEND_STORE_URI"] == uri
    reference = found["DATABASE_PASSWORD"]["secretKeyRef"]
    assert base64.b64decode(SECRET["data"][reference["key"]]) == b"hidden"
    assert SECRET["metadata"]["name"] == reference["name"]


def test_it_answers_by_its_own_names_and_localhost_alone_and_reports_to_nobody() -> None:
    found = variables(pod(ALONE))
    assert found["MLFLOW_DISABLE_TELEMETRY"] == found["DO_NOT_TRACK"] == "true"
    [hosts] = [each for each in container(MLFLOW)["args"] if "allowed-hosts" in each]
    names = hosts.partition("=")[2].split(",")
    assert {"localhost:*", "mlflow:5000", "mlflow.team.svc:5000"} <= {*names}
    assert "*" not in names
