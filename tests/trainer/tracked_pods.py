"""Runs pods whose runs are tracked, and a real MLflow server, inside the image, on its Python.

    python3 tracked_pods.py PLAN.json

The plan has `pods`, each with its `name`, the launcher's `args` and its `env`. Those that are
`early` start before the server on `port`, whose packages are in /mlflow, and the others when it
answers. Beside the plan come NAME.out, NAME.err, NAME.termination and NAME.outputs of each pod, and
found.json: how each ended, and what the server has of all runs.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SERVER_SECONDS, _POD_SECONDS = 90.0, 300.0
_HANGING = socket.socket()
"""Connections to it are accepted, and never answered."""
_LAUNCH = ("-m", "slipway_trainer.launch")
_TIMED = """began=$(date +%s.%N); "$@"; code=$?
printf '{"code": %d, "began": %s, "ended": %s}' $code $began $(date +%s.%N) > $0.end"""


def main(plan_file: Path) -> None:
    """Run the plan, and write what came of it."""
    here, plan = plan_file.parent, json.loads(plan_file.read_text())
    _HANGING.bind(("127.0.0.1", plan["hanging"]))
    _HANGING.listen(64)
    early = [_pod(here, pod) for pod in plan["pods"] if pod["early"]]
    with _server(here, plan["port"]) as url:
        for process in [*early, *(_pod(here, pod) for pod in plan["pods"] if not pod["early"])]:
            process.wait(_POD_SECONDS)
        found = _runs(f"{url}/api/2.0")
    ends = {
        pod["name"]: json.loads((here / f"{pod['name']}.end").read_text()) for pod in plan["pods"]
    }
    (here / "found.json").write_text(json.dumps({"ends": ends, "runs": found}))


def _pod(here: Path, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
    place = str(here / pod["name"])
    own = {"TERMINATION_LOG": f"{place}.termination", "SLIPWAY_OUTPUT_DIR": f"{place}.outputs"}
    Path(own["TERMINATION_LOG"]).touch()
    with Path(f"{place}.out").open("wb") as out, Path(f"{place}.err").open("wb") as err:
        return subprocess.Popen(
            ["sh", "-c", _TIMED, place, sys.executable, *_LAUNCH, *pod["args"]],
            env={**os.environ, **own, **pod["env"]}, stdout=out, stderr=err,
        )  # fmt: skip


@contextmanager
def _server(here: Path, port: int) -> Iterator[str]:
    """Yield the address of the server once it answers; end it with all of its processes."""
    options = ("--host=127.0.0.1", f"--port={port}", "--workers=1")
    stores = (
        f"--backend-store-uri=sqlite:///{here}/runs.db",
        f"--artifacts-destination={here}/files",
    )
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    # To compile its modules takes longer than all else.
    quiet |= {"PYTHONPYCACHEPREFIX": "/pyc", "PYTHONDONTWRITEBYTECODE": ""}
    with (here / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *options, *stores],
            env={**os.environ, **quiet, "HOME": str(here), "PYTHONPATH": "/mlflow"},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + _SERVER_SECONDS
    try:
        while not _answers(url):
            if time.monotonic() > until:
                raise TimeoutError((here / "server.log").read_text())
            time.sleep(0.2)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/health", timeout=5).close()  # noqa: S310 - as below
    except OSError:
        return False
    return True


def _runs(api: str) -> list[dict[str, Any]]:
    """Return all runs, with each metric's complete history and the files."""
    experiments = _call(f"{api}/mlflow/experiments/search", {"max_results": 100})["experiments"]
    names = {each["experiment_id"]: each["name"] for each in experiments}
    body = {"experiment_ids": list(names), "max_results": 100}
    found: list[dict[str, Any]] = _call(f"{api}/mlflow/runs/search", body).get("runs", [])
    for run in found:
        run_id = run["info"]["run_id"]
        run["experiment"] = names[run["info"]["experiment_id"]]
        query = f"run_id={run_id}&metric_key="
        run["history"] = {
            each["key"]: _call(f"{api}/mlflow/metrics/get-history?{query}{each['key']}")["metrics"]
            for each in run["data"].get("metrics", [])
        }
        run["files"] = _call(f"{api}/mlflow/artifacts/list?run_id={run_id}").get("files", [])
    return found


def _call(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - of the server above
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
