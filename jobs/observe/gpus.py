"""The utilization of a run's GPUs, sampled from NVIDIA's DCGM exporter."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core import kube
from core.kube import REQUEST_ERRORS, Request, api_message
from jobs.api.client import JobApi

if TYPE_CHECKING:
    from jobs.observe.run_state import RunState

IDLE_SECONDS = 600.0
"""The number of seconds for which a GPU may be idle, for example while data is loaded."""
_GAP_SECONDS = 120.0  # a longer gap between measurements ends a streak
METRIC = "DCGM_FI_DEV_GPU_UTIL"
"""Percentage of time during which a kernel was running on the GPU:
https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html"""
_SAMPLE = re.compile(rf"^{METRIC}{{(.*)}}\s+(\d[\d.eE+-]*)", re.MULTILINE)  # not NaN or +Inf
_MOST = 100.0  # DCGM reports a huge number for an unknown value

Gpu = tuple[str, str]
"""A pod's name or UID, and the ID of one of its GPUs."""
_EXPORTERS = ("app.kubernetes.io/name=dcgm-exporter", "app=nvidia-dcgm-exporter")
"""The exporter's labels in its Helm chart and in NVIDIA's GPU operator:
https://github.com/NVIDIA/dcgm-exporter/blob/main/deployment/templates/_helpers.tpl and
https://github.com/NVIDIA/gpu-operator/blob/main/assets/state-dcgm-exporter/0800_daemonset.yaml"""
# The proxy uses the first port that a pod declares: ResourceLocation in
# https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/registry/core/pod/strategy.go
_METRICS = "/api/v1/namespaces/{namespace}/pods/{name}/proxy/metrics"
_MOST_BYTES = 1 << 24  # an exporter for eight GPUs reports a hundredth of this
LOOK_SECONDS = 30.0
_MOST_SECONDS = 20.0  # for all requests in one measurement; some may time out
PATIENCE_SECONDS = 300.0
"""The number of seconds to wait for a new node to pull the exporter's image."""
_Look = tuple[float, Mapping[Gpu, float], str | None]
"""A measurement: its start time, the GPUs' utilization, and the reason if a GPU is missing."""


def utilization(metrics: str, namespace: str) -> dict[Gpu, float]:
    """Return the utilization, in percent, of the GPUs assigned to a namespace's pods.

    `metrics` is in Prometheus's text format, with one sample per line, labeled with the GPU's pod.
    https://prometheus.io/docs/instrumenting/exposition_formats/
    https://github.com/NVIDIA/dcgm-exporter/blob/main/internal/pkg/transformation/kubernetes.go
    """
    measured = {}
    for sample in _SAMPLE.finditer(metrics):
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[1]))
        value = float(sample[2])
        if labels.get("namespace") == namespace and "pod" in labels and value <= _MOST:
            measured[labels["pod"], labels.get("UUID") or labels.get("gpu", "")] = value
    return measured


@dataclass(frozen=True)
class Streak:
    """A period during which every measurement of a GPU was below the limit; times in seconds."""

    since: float
    latest: float
    highest: float  # the highest measurement, in percent

    @property
    def seconds(self) -> float:
        return self.latest - self.since


@dataclass
class GpuUse:
    """The current idle streaks of a run's GPUs, keyed by the pod's UID and the GPU's ID."""

    _streaks: dict[Gpu, Streak] = field(default_factory=dict)

    def see(self, at: float, measured: Mapping[Gpu, float], least: float) -> None:
        """Add measurements, in percent, taken at the time `at`; a GPU below `least` is idle."""
        for gpu, percent in measured.items():
            before = self._streaks.pop(gpu, None)
            if percent >= least:
                continue
            if before is None or at - before.latest > _GAP_SECONDS:
                before = Streak(at, at, percent)
            self._streaks[gpu] = Streak(before.since, at, max(before.highest, percent))

    @property
    def idle(self) -> dict[Gpu, Streak]:
        return {gpu: each for gpu, each in self._streaks.items() if each.seconds >= IDLE_SECONDS}


@dataclass
class GpuMeter:
    """Measures one run's GPUs in a thread; a GPU with a utilization below `least` % is idle."""

    api: JobApi
    run: RunState
    least: float
    warn: Callable[[str], None]
    _result: _Look | None = None
    _thread: threading.Thread | None = None
    _begun: float = float("-inf")
    _warned: bool = False
    _lacking_since: float | None = None

    def look(self) -> None:
        """Pass the latest measurement to the run, and start the next one if it is due.

        Does not block.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        if self._result is not None:
            self._take_in(*self._result)
            self._result = None
        now = time.monotonic()
        # Ranks that start early wait for the others, with idle GPUs.
        started = self.run.replicas.values() if self.run.all_started else ()
        pods = {each.name: str(each.node) for each in started if each.running and each.gpus}
        if now - self._begun < LOOK_SECONDS or not pods:
            return
        self._begun = now
        # A daemon, so that it does not keep the process alive.
        self._thread = threading.Thread(target=self._measure, args=(now, pods), daemon=True)
        self._thread.start()

    def _take_in(self, at: float, measured: Mapping[Gpu, float], problem: str | None) -> None:
        self.run.see_gpus(at, measured, self.least)
        if problem is None:
            self._lacking_since = None
            return
        self._lacking_since = at if self._lacking_since is None else self._lacking_since
        if at - self._lacking_since >= PATIENCE_SECONDS and not self._warned:
            self._warned = True
            self.warn(
                f"`minGpuUtilization` in job {self.api.name} does not apply to GPUs that can't be "
                f"measured: {problem}. The run continues; see docs/gpus.md#idle-gpus"
            )

    def _measure(self, at: float, pods: Mapping[str, str]) -> None:
        try:
            self._result = self._read_exporters(at, pods)
        except REQUEST_ERRORS as error:
            text = f"can't list the pods of NVIDIA's DCGM exporter: {api_message(error)}"
            self._result = at, {}, text
        except Exception as error:  # noqa: BLE001 - an exporter's response must not end a run
            self._result = at, {}, f"can't read metrics from NVIDIA's DCGM exporter: {error!r}"

    def _read_exporters(self, at: float, pods: Mapping[str, str]) -> _Look:
        """Return a measurement from exporters on the nodes in `pods`, which maps pods to nodes."""
        exporters = {
            pod["spec"]["nodeName"]: pod
            for labels in _EXPORTERS
            for pod in json.loads(self._answer("/api/v1/pods", labelSelector=labels))["items"]
            if pod["spec"].get("nodeName") in pods.values() and pod["status"]["phase"] == "Running"
        }
        measured: dict[Gpu, float] = {}
        silent = dict.fromkeys({*pods.values()} - exporters.keys(), "has no running pod")
        for node, exporter in sorted(exporters.items()):
            if time.monotonic() - at > _MOST_SECONDS:
                silent[node] = f"did not respond within {_MOST_SECONDS:g} s"
                continue
            try:
                metrics = self._answer(_METRICS.format_map(exporter["metadata"]))
                measured |= utilization(metrics, self.api.namespace)
            except REQUEST_ERRORS as error:
                silent[node] = f"is not responding ({api_message(error)})"
        covered = {pod for pod, _ in measured}
        for pod, node in sorted(pods.items()):
            if pod not in covered:
                lacks = silent.get(node, f"reports no {METRIC} for pod {pod}")
                return at, measured, f"NVIDIA's DCGM exporter {lacks} on node {node}"
        return at, measured, None

    def _answer(self, path: str, **query: str) -> str:
        with kube.send(self.api.client, Request("GET", path, query), limit=5) as answer:
            return answer.read(_MOST_BYTES).decode(errors="replace")
