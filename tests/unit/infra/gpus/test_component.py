"""GPUs count as verified by a job that computed on one."""

from typing import Any

import pytest

from infra.gpus.component import judge_cuda

READY = {"state": "unverified", "reason": "the pool may have no nodes", "nodes": 0}


def test_a_job_on_a_gpu_verifies_it() -> None:
    ran = {"a": None, "b": {"device": "cuda", "device_name": "NVIDIA A100"}}
    verified = {"state": "verified", "by": "job b", "device_name": "NVIDIA A100"}
    assert judge_cuda(READY, ran) == {**verified, "nodes": 0}


def test_a_job_that_had_gpus_and_calculated_on_the_cpu_says_that_they_are_not_real() -> None:
    found = judge_cuda(READY, {"a": {"state": "Succeeded", "device": "cpu"}})
    assert found["state"] == "unverified"
    assert "job a requested GPUs but ran on the CPU" in found["reason"]


@pytest.mark.parametrize("results", [{}, {"a": None}, {"a": {"state": "CannotStart"}}])
def test_jobs_that_tell_nothing_leave_the_reason_as_it_was(results: dict[str, Any]) -> None:
    assert judge_cuda(READY, results) == READY


def test_gpus_that_failed_to_become_ready_are_not_called_anything_else() -> None:
    reason = "the cluster's GPUs are not ready"
    assert judge_cuda(None, {}) == {"state": "unverified", "reason": reason}
