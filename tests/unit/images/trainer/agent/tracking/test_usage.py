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


_CGROUPS = {
    "version 2": {
        "cpu.stat": "usage_usec {}000000\nuser_usec 1\n",
        "memory.current": "3145728\n",
        "memory.stat": "anon 1\ninactive_file 1048576\n",
    },
    "version 1": {
        "cpuacct/cpuacct.usage": "{}000000000\n",
        "memory/memory.usage_in_bytes": "3145728\n",
        "memory/memory.stat": "cache 5\ntotal_inactive_file 1048576\n",
    },
}


@pytest.mark.parametrize("version", _CGROUPS)
def test_a_cgroup_tells_of_cpus_and_memory(tmp_path: Path, version: str) -> None:
    def use(cpu_seconds: int) -> None:
        for name, text in _CGROUPS[version].items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text.format(cpu_seconds))

    assert Usage(2, tmp_path).metrics() == {}, "nothing is made up"
    use(1)
    usage = Usage(2, tmp_path)
    use(4)
    cpus, memory = (150.0, 0.0), {"system/pod_2/system_memory_usage_megabytes": 2.0}
    for each in cpus:
        assert usage.metrics() == {"system/pod_2/cpu_utilization_percentage": each, **memory}


def test_each_gpu_has_its_own_and_what_the_driver_does_not_know_is_left_out() -> None:
    assert gpus("0, 87, 1024\n1, [N/A], 7\n") == {
        "gpu_0_utilization_percentage": 87.0,
        "gpu_0_memory_usage_megabytes": 1024.0,
        "gpu_1_memory_usage_megabytes": 7.0,
    }
