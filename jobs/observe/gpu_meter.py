"""Asks NVIDIA's DCGM exporter, now and then, how busy the GPUs of a run are."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kubernetes.client.exceptions import ApiException

from core import kube
from core.kube import Request, api_message
from jobs.api.client import JobApi, Object, Unreachable
from jobs.observe.gpu_use import METRIC, Gpu, utilization
from jobs.observe.run_state import RunState

_EXPORTERS = ("app.kubernetes.io/name=dcgm-exporter", "app=nvidia-dcgm-exporter")
"""The labels of its Helm chart, and of NVIDIA's GPU operator.

https://github.com/NVIDIA/dcgm-exporter/blob/main/deployment/templates/_helpers.tpl and
https://github.com/NVIDIA/gpu-operator/blob/main/assets/state-dcgm-exporter/0800_daemonset.yaml
"""
_MOST_BYTES = 1 << 24
"""An exporter of eight GPUs says a hundredth of that."""
_ANSWER_SECONDS = 5  # nothing is tried again before the next look
LOOK_SECONDS = 30.0
_MOST_SECONDS = 20.0
"""How long one look goes on asking: exporters that do not answer use up their own limits."""
PATIENCE_SECONDS = 300.0
"""A new node pulls the exporter's image first."""
_Look = tuple[float, Mapping[Gpu, float], str | None]
"""When a look began, the utilization of GPUs by pod name, and why it lacks some."""


@dataclass
class GpuMeter:
    """Measures the GPUs of one run, in threads of its own; below `least` per cent one is idle."""

    api: JobApi
    run: RunState
    least: float
    warn: Callable[[str], None]
    _found: _Look | None = None
    _thread: threading.Thread | None = None
    _begun: float = float("-inf")
    _warned: bool = False

    def look(self) -> None:
        """Let the run see what was measured, and begin to measure when it is time; never wait."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._found is not None:
            self._take_in(*self._found)
            self._found = None
        now = time.monotonic()
        # Those that started first wait for the others, without using their GPUs.
        if not self.run.all_started or now - self._begun < LOOK_SECONDS:
            return
        running = [each for each in self.run.replicas.values() if each.running and each.gpus]
        pods = {each.name: str(each.node) for each in running}
        self._begun = now
        # None keeps the process alive.
        self._thread = threading.Thread(target=self._measure, args=(now, pods), daemon=True)
        self._thread.start()

    def _take_in(self, at: float, measured: Mapping[Gpu, float], problem: str | None) -> None:
        self.run.see_gpus(at, measured, self.least)
        lacked = self.run.lasted("unmeasured GPUs", at, holds=problem is not None)
        if lacked >= PATIENCE_SECONDS and not self._warned:
            self._warned = True
            self.warn(
                f"`minGpuUtilization` of {self.api.name} has no effect on GPUs that are not "
                f"measured: {problem}. The run continues; see docs/gpus.md#idle-gpus"
            )

    def _measure(self, at: float, pods: Mapping[str, str]) -> None:
        try:
            self._found = self._asked(at, pods)
        except (ApiException, Unreachable) as error:
            text = f"the pods of NVIDIA's DCGM exporter can't be listed: {api_message(error)}"
            self._found = at, {}, text
        except Exception as error:  # noqa: BLE001 - what others answer may not end a run
            self._found = at, {}, f"NVIDIA's DCGM exporter can't be read: {error!r}"

    def _asked(self, at: float, pods: Mapping[str, str]) -> _Look:
        """Return what the exporters on the nodes of `pods` answer."""
        exporters = {
            pod["spec"]["nodeName"]: pod
            for labels in _EXPORTERS
            for pod in json.loads(self._answer("/api/v1/pods", labelSelector=labels))["items"]
            if pod["spec"].get("nodeName") in pods.values() and pod["status"]["phase"] == "Running"
        }
        measured: dict[Gpu, float] = {}
        silent: dict[str, str] = {}
        for node, exporter in sorted(exporters.items()):
            if time.monotonic() - at > _MOST_SECONDS:
                silent[node] = f"did not answer within {_MOST_SECONDS:g} s"
                continue
            try:
                measured |= utilization(self._metrics(exporter), self.api.namespace)
            except (ApiException, Unreachable) as error:
                silent[node] = f"does not answer ({api_message(error)})"
        seen = {pod for pod, _ in measured}
        for pod, node in sorted(pods.items()):
            if pod not in seen:
                lacks = silent.get(node, f"reports no {METRIC} of pod {pod}")
                lacks = lacks if node in exporters else "has no pod that runs"
                return at, measured, f"NVIDIA's DCGM exporter {lacks} on node {node}"
        return at, measured, None

    def _metrics(self, exporter: Object) -> str:
        """Return what a pod answers at /metrics of the first port that it declares.

        https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/registry/core/pod/strategy.go,
        ResourceLocation
        """
        namespace, name = exporter["metadata"]["namespace"], exporter["metadata"]["name"]
        return self._answer(f"/api/v1/namespaces/{namespace}/pods/{name}/proxy/metrics")

    def _answer(self, path: str, **query: str) -> str:
        request = Request("GET", path, query)
        with kube.send(self.api.client, request, limit=_ANSWER_SECONDS) as answer:
            return answer.read(_MOST_BYTES).decode(errors="replace")
