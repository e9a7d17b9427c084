"""MLflow's tracking server, through its REST API.

https://mlflow.org/docs/latest/api_reference/rest-api.html
MLflow's client would add 17 packages to every job's image. Credentials are set as for the client:
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN.
"""

import base64
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from slipway_trainer.agent.tracking.figures import Point
from slipway_trainer.agent.tracking.sinks import Dataset, RefusedError, Run, Texts

_SECONDS = 10.0
"""Time limit for a response, in seconds. After it, metrics are resent; MLflow drops duplicates."""
_METRICS, _PARAMS, _TAGS = 1000, 100, 100
"""Maximum number of entries in one call."""
_NAME, _PARAM, _TAG, _DIGEST = 250, 500, 5000, 36
"""Maximum lengths in characters, in the strictest MLflow versions."""
_RUN_ID = "slipway.run_id"


class Mlflow:
    """A run in MLflow."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._id = self._artifacts = ""

    def open(self) -> str:
        experiment = self._experiment()
        where = {"experiment_ids": [experiment], "max_results": 1}
        where["filter"] = f"tags.`{_RUN_ID}` = '{self._run.id}'"
        if runs := self._post("runs/search", where).get("runs"):
            info = runs[0]["info"]
        elif self._run.is_first:
            tags = {_RUN_ID: self._run.id, "mlflow.user": "slipway", "mlflow.source.type": "JOB"}
            if (revision := self._run.facts.get("revision")) is not None:
                tags["mlflow.source.git.commit"] = str(revision).removesuffix("-dirty")
            body = {"experiment_id": experiment, "run_name": self._run.id, "start_time": _now()}
            info = self._post("runs/create", {**body, "tags": _pairs(tags, _TAG)})["run"]["info"]
        else:
            raise ConnectionError(f"rank 0 has not created the run {self._run.id} yet")
        self._id, self._artifacts = info["run_id"], info["artifact_uri"]
        if self._run.is_first and info["status"] != "RUNNING":  # the container was restarted
            self._post("runs/update", {"run_id": self._id, "status": "RUNNING"})
        return f"{self._run.address}/#/experiments/{experiment}/runs/{self._id}"

    def describe(self, params: Texts, tags: Texts, dataset: Dataset | None) -> None:
        self._log("params", _pairs(params, _PARAM), _PARAMS)
        own = {f"slipway.{name}": text for name, text in tags.items()}
        self._log("tags", _pairs(own, _TAG), _TAGS)
        if dataset is not None:
            source = {"source": json.dumps({"uri": dataset.source, "sha256": dataset.digest})}
            names = {"name": dataset.name, "digest": dataset.digest[:_DIGEST] or "unknown"}
            about = {**names, "source_type": "slipway", **source}
            context = [{"key": "mlflow.data.context", "value": "training"}]
            inputs = [{"tags": context, "dataset": about}]
            self._post("runs/log-inputs", {"run_id": self._id, "datasets": inputs})

    def metrics(self, points: Sequence[Point]) -> None:
        metrics = [
            {"key": p.name[:_NAME], "value": p.value, "timestamp": p.time, "step": p.step}
            for p in points
        ]
        self._log("metrics", metrics, _METRICS)

    def artifact(self, path: Path, name: str) -> None:
        if not self._artifacts.startswith("mlflow-artifacts:/"):
            raise RefusedError(
                f"MLflow stores files in {self._artifacts.partition(':')[0]} and does not serve "
                "them itself; start its server with --serve-artifacts"
            )
        # In mlflow-artifacts://host/path, too, only the path counts.
        place = urllib.parse.urlsplit(self._artifacts).path.strip("/")
        target = urllib.parse.quote(f"{place}/{name}")
        with path.open("rb") as file:
            headers = {"Content-Length": str(path.stat().st_size)}
            self._call("PUT", f"mlflow-artifacts/artifacts/{target}", file, headers)

    def close(self, *, is_success: bool, ends_run: bool) -> None:
        if ends_run:
            status = "FINISHED" if is_success else "FAILED"
            self._post("runs/update", {"run_id": self._id, "status": status, "end_time": _now()})

    def _experiment(self) -> str:
        """Return the experiment's id; rank 0 creates the experiment if it does not exist."""
        name = self._run.experiment
        query = urllib.parse.urlencode({"experiment_name": name})
        try:
            experiment = self._call("GET", f"mlflow/experiments/get-by-name?{query}")["experiment"]
        except RefusedError:
            if not self._run.is_first:
                raise ConnectionError(f"rank 0 has not created experiment {name} yet") from None
            return str(self._post("experiments/create", {"name": name})["experiment_id"])
        if self._run.is_first and experiment["lifecycle_stage"] == "deleted":
            self._post("experiments/restore", {"experiment_id": experiment["experiment_id"]})
        return str(experiment["experiment_id"])

    def _log(self, what: str, entries: Sequence[Mapping[str, Any]], most: int) -> None:
        for start in range(0, len(entries), most):
            self._post("runs/log-batch", {"run_id": self._id, what: entries[start : start + most]})

    def _post(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        return self._call("POST", f"mlflow/{name}", json.dumps(body).encode(), headers)

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the server's response; raises the same exceptions as a `Sink`."""
        url, own = f"{self._run.url}/api/2.0/{path}", {**(headers or {}), **_authorization()}
        request = urllib.request.Request(url, body, own, method=method)  # noqa: S310 - from the stack
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                document = json.loads(answer.read() or "{}")
        except urllib.error.HTTPError as error:
            text = error.read(300).decode(errors="replace")
            if 400 <= error.code < 500 and error.code not in {401, 403, 408, 425, 429}:
                raise RefusedError(f"{path.partition('?')[0]}: {error.code} {text}") from None
            raise OSError(f"{error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise OSError(str(error.reason)) from None
        except (ValueError, http.client.HTTPException) as error:  # invalid response or URL
            raise OSError(f"{url} is not an MLflow API: {error}") from None
        return document if isinstance(document, dict) else {}


def _pairs(values: Mapping[str, str], longest: int) -> list[dict[str, str]]:
    return [{"key": key[:_NAME], "value": text[:longest]} for key, text in values.items()]


def _authorization() -> dict[str, str]:
    variable = os.environ.get
    if (token := variable("MLFLOW_TRACKING_TOKEN")) is not None:
        return {"Authorization": f"Bearer {token}"}
    if (user := variable("MLFLOW_TRACKING_USERNAME")) is None:
        return {}
    pair = f"{user}:{variable('MLFLOW_TRACKING_PASSWORD', '')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _now() -> int:
    return int(time.time() * 1000)
