"""What a container uses, by the files of its cgroup."""

import time
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from slipway_trainer.agent.tracking.usage import Usage, gpus


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes on by two seconds from one look to the next."""
    monkeypatch.setattr(time, "monotonic", partial(next, count(step=2)))


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_cgroup_of_version_2(tmp_path: Path) -> None:
    stat = "anon 1\ninactive_file 1048576\n"
    write(tmp_path, cpu_dot_stat="usage_usec 1000000\nuser_usec 1\n", memory_dot_stat=stat)
    write(tmp_path, memory_dot_current="3145728\n")
    used = Usage(2, tmp_path)
    write(tmp_path, cpu_dot_stat="usage_usec 2500000\nuser_usec 1\n")
    assert used.metrics() == {
        "system/pod_2/cpu_utilization_percentage": 75.0,
        "system/pod_2/system_memory_usage_megabytes": 2.0,
    }
    assert used.metrics()["system/pod_2/cpu_utilization_percentage"] == 0


def test_a_cgroup_of_version_1_and_none(tmp_path: Path) -> None:
    assert Usage(0, tmp_path).metrics() == {}, "nothing is made up"
    write(tmp_path, cpuacct__cpuacct_dot_usage="1000000000\n")
    write(tmp_path, memory__memory_dot_usage_in_bytes="3145728\n")
    write(tmp_path, memory__memory_dot_stat="cache 5\ntotal_inactive_file 2097152\n")
    used = Usage(0, tmp_path)
    write(tmp_path, cpuacct__cpuacct_dot_usage="5000000000\n")
    assert used.metrics() == {
        "system/pod_0/cpu_utilization_percentage": 200.0,
        "system/pod_0/system_memory_usage_megabytes": 1.0,
    }


def test_each_gpu_has_its_own_and_what_the_driver_does_not_know_is_left_out() -> None:
    assert gpus("0, 87, 1024\n1, [N/A], 7\n") == {
        "gpu_0_utilization_percentage": 87.0,
        "gpu_0_memory_usage_megabytes": 1024.0,
        "gpu_1_memory_usage_megabytes": 7.0,
    }
