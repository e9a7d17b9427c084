"""A run whose GPUs do nothing ends, by what an exporter in the cluster says of them.

The node only claims to have a GPU, and a program of the tests answers as NVIDIA's exporter does.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from clusters.cluster import JOBS
from jobs.observe import gpus
from tests.engine.awaiting import await_true
from tests.engine.gpu_stack import Node
from tests.engine.job_programs import SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_EXPORTER = """
import http.server, sys
class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
http.server.HTTPServer(("", 9400), Metrics).serve_forever()
"""


@contextmanager
def exporter(jobs: Jobs, image: str, metrics: str) -> Iterator[None]:
    """Have a pod with the label of the exporter's Helm chart answer `metrics`."""
    elsewhere, name = "--namespace=default", f"exporter-{secrets.token_hex(3)}"
    container = ("--port=9400", "--command", "--", "python3", "-c", _EXPORTER, metrics)
    labels = "--labels=app.kubernetes.io/name=dcgm-exporter"
    jobs.kubectl(elsewhere, "run", name, f"--image={image}", labels, *container)
    try:
        yield
    finally:
        jobs.kubectl(elsewhere, "delete", "pod", name, "--wait=false", "--grace-period=1")


@pytest.mark.long
def test_a_run_that_leaves_its_gpu_idle_ends_and_says_what_was_wasted(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "IDLE_SECONDS", 1.5)
    monkeypatch.setattr(gpus, "LOOK_SECONDS", 0.5)
    pod = f"{job_name}-master-0"
    metrics = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",namespace="{JOBS}",pod="{pod}"}} 3\n'
    idle = python(trainer, SLEEPING, "600", workers=0, gpus=1, minGpuUtilization=20)
    with exporter(jobs, trainer, metrics), Node(jobs, f"test-{job_name}").with_a_gpu():
        said = runs.train_in_vain(job_name, **idle)
    assert (
        f"job {job_name} ended TimedOut: 1 of 1 GPU stayed below 20% for 0.025 minutes, peaking at "
        f"3%: rank 0 ({pod}). That wasted 0.00 GPU hours"
    ) in said
    result = runs.output(job_name)
    assert (result["failure"]["rank"], result["failure"]["pod"]) == (0, pod)
    assert "minGpuUtilization" in result["failure"]["advice"]
    await_true(lambda: jobs.items("pods", job_name) == [])
