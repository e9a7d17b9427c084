"""Resource usage in a pod's container: CPU and memory from its cgroup, GPUs from nvidia-smi.

The metrics' names are those that MLflow uses for runs on several nodes, listed on this page:
https://mlflow.org/docs/latest/ml/tracking/system-metrics/
"""

import math
import shutil
import subprocess
import time
from pathlib import Path

from slipway_trainer.agent.tracking.figures import Point

_QUERY = "--query-gpu=index,utilization.gpu,memory.used"
ROOT = Path("/sys/fs/cgroup")
"""Mount point of the cgroup: cgroup v2, or v1 with a directory for each controller."""


class Usage:
    """Measures resource usage since the last measurement, in the container of pod number `pod`."""

    def __init__(self, pod: int, root: Path = ROOT) -> None:
        self._prefix, self._root = f"system/pod_{pod}", root
        self._began = time.monotonic()
        self._before = (self._began, self._cpu_seconds())
        self._nvidia_smi = shutil.which("nvidia-smi") if Path("/dev/nvidiactl").exists() else None

    def points(self, least_seconds: float) -> list[Point]:
        """Return current metrics, or none if the last ones are less than `least_seconds` old.

        A point's step is the number of seconds since this object was created.
        """
        if (now := time.monotonic()) - self._before[0] < least_seconds:
            return []
        step, at = int(now - self._began), int(time.time() * 1000)
        return [Point(name, value, step, at) for name, value in self.metrics().items()]

    def metrics(self) -> dict[str, float]:
        """Return known values for CPU (% of one core), memory (MiB) and each GPU (% and MiB)."""
        before, used = self._before
        self._before = now, seconds = time.monotonic(), self._cpu_seconds()
        values = {
            "cpu_utilization_percentage": 100 * (seconds - used) / ((now - before) or math.nan),
            "system_memory_usage_megabytes": self._memory() / 2**20,
            **self._gpus(),
        }
        return {
            f"{self._prefix}/{name}": round(each, 1)
            for name, each in values.items()
            if not math.isnan(each)
        }

    def _cpu_seconds(self) -> float:
        nanoseconds = _number(self._root / "cpuacct/cpuacct.usage")
        return _number(self._root / "cpu.stat", "usage_usec", nanoseconds / 1e3) / 1e6

    def _memory(self) -> float:
        """Return the memory in use, in bytes, without reclaimable file cache."""
        if not math.isnan(used := _number(self._root / "memory.current")):
            return used - _number(self._root / "memory.stat", "inactive_file", 0)
        folder = self._root / "memory"
        cached = _number(folder / "memory.stat", "total_inactive_file", 0)
        return _number(folder / "memory.usage_in_bytes") - cached

    def _gpus(self) -> dict[str, float]:
        if self._nvidia_smi is None:
            return {}
        command = (self._nvidia_smi, _QUERY, "--format=csv,noheader,nounits")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=5.0, check=True)
        except (OSError, subprocess.SubprocessError):
            return {}
        return gpus(done.stdout)


def gpus(table: str) -> dict[str, float]:
    """Parse nvidia-smi's lines: a GPU's index, utilization in %, memory in MiB; skip `[N/A]`."""
    metrics = {}
    for line in table.splitlines():
        index, *values = (word.strip() for word in line.split(","))
        names = ("utilization_percentage", "memory_usage_megabytes")
        for name, value in zip(names, values, strict=False):
            if value.isdecimal():
                metrics[f"gpu_{index}_{name}"] = float(value)
    return metrics


def _number(path: Path, name: str | None = None, default: float = math.nan) -> float:
    """Return the first number in a file, or the one after `name`, or `default` if there is none."""
    try:
        words = path.read_text().split()
        return int(words[0 if name is None else words.index(name) + 1])
    except (OSError, ValueError, IndexError):
        return default
