"""How much a run's GPUs compute, as NVIDIA's DCGM exporter measures it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

IDLE_SECONDS = 600.0
"""So long a program may load data or evaluate, for example."""
_GAP_SECONDS = 120.0  # what a GPU did is unknown where it was not measured for so long
METRIC = "DCGM_FI_DEV_GPU_UTIL"
"""Per cent of the time in which a kernel ran on the GPU.

https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html
"""
_SAMPLE = re.compile(rf"^{METRIC}{{(.*)}}\s+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MOST = 100.0

Gpu = tuple[str, str]
"""A pod, and which of its GPUs."""


def utilization(metrics: str, namespace: str) -> dict[Gpu, float]:
    """Return the utilization of the GPUs that pods of a namespace have, in per cent.

    Prometheus's text format has a sample in each line; the exporter labels a GPU that a pod has.
    https://prometheus.io/docs/instrumenting/exposition_formats/
    https://github.com/NVIDIA/dcgm-exporter/blob/main/internal/pkg/transformation/kubernetes.go
    """
    found = {}
    for sample in _SAMPLE.finditer(metrics):
        labels = dict(_LABEL.findall(sample[1]))
        value = _number(sample[2])
        if labels.get("namespace") == namespace and "pod" in labels and value is not None:
            found[labels["pod"], labels.get("UUID") or labels.get("gpu", "")] = value
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # What is not known is a huge number to DCGM.
    return value if 0 <= value <= _MOST else None


@dataclass(frozen=True)
class Streak:
    """A time in which each measurement of a GPU was below the limit, in seconds."""

    since: float
    latest: float
    highest: float  # of the measurements, in per cent

    @property
    def seconds(self) -> float:
        """How long it has lasted, as far as that was measured."""
        return self.latest - self.since


@dataclass
class GpuUse:
    """What was measured of a run's GPUs: by the pod's uid and which GPU it is."""

    _streaks: dict[Gpu, Streak] = field(default_factory=dict)

    def see(self, at: float, measured: Mapping[Gpu, float], least: float) -> None:
        """Take in measurements in per cent, made at a time in seconds of any one clock.

        Below `least` a GPU counts as idle.
        """
        for gpu, percent in measured.items():
            before = self._streaks.pop(gpu, None)
            if percent >= least:
                continue
            if before is None or at - before.latest > _GAP_SECONDS:
                before = Streak(at, at, percent)
            highest = max(before.highest, percent)
            self._streaks[gpu] = replace(before, latest=at, highest=highest)

    @property
    def idle(self) -> dict[Gpu, Streak]:
        """The GPUs that have been idle for too long."""
        return {gpu: each for gpu, each in self._streaks.items() if each.seconds >= IDLE_SECONDS}
