"""What a container uses, by the files of its cgroup."""

import time
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from slipway_trainer.agent.tracking.usage import Usage, gpus


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes on by two seconds from one look to the next."""
    monkeypatch.setattr(time, "monotonic", partial(next, count(step=2)))


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


_SECOND = {"memory.stat": "anon 1\ninactive_file 1048576\n", "memory.current": "3145728\n"}
_FIRST = {
    "memory/memory.stat": "cache 5\ntotal_inactive_file 2097152\n",
    "memory/memory.usage_in_bytes": "3145728\n",
}


@pytest.mark.parametrize(
    ("files", "before", "after", "cpu", "megabytes"),
    [
        (
            _SECOND,
            {"cpu.stat": "usage_usec 1000000\n"},
            {"cpu.stat": "usage_usec 2500000\n"},
            75,
            2,
        ),
        (
            _FIRST,
            {"cpuacct/cpuacct.usage": "1000000000\n"},
            {"cpuacct/cpuacct.usage": "5000000000\n"},
            *(200, 1),
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_a_cgroup_of_either_version(
    tmp_path: Path,
    files: Mapping[str, str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    cpu: float,
    megabytes: float,
) -> None:
    assert Usage(0, tmp_path).metrics() == {}, "without a cgroup nothing is made up"
    write(tmp_path, {**files, **before})
    used = Usage(2, tmp_path)
    write(tmp_path, after)
    assert used.metrics() == {
        "system/pod_2/cpu_utilization_percentage": cpu,
        "system/pod_2/system_memory_usage_megabytes": megabytes,
    }
    assert used.metrics()["system/pod_2/cpu_utilization_percentage"] == 0


def test_each_gpu_has_its_own_and_what_the_driver_does_not_know_is_left_out() -> None:
    assert gpus("0, 87, 1024\n1, [N/A], 7\n") == {
        "gpu_0_utilization_percentage": 87.0,
        "gpu_0_memory_usage_megabytes": 1024.0,
        "gpu_1_memory_usage_megabytes": 7.0,
    }
