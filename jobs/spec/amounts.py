"""Amounts and durations of a job that do not go together. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from core import quantities
from core.problem import Contradiction
from core.text import quote
from jobs.spec.contradiction import of
from jobs.spec.names import THREADS
from jobs.spec.resources import roles, share

if TYPE_CHECKING:
    from jobs.spec.job import TrainingJob

START_TIMEOUT = 300
"""Seconds: the default."""


def contradictions(job: TrainingJob) -> Iterator[Contradiction]:
    """Yield what does not go together among the amounts of `job`."""
    for rule in (_threads, _gpus, _timeouts, _shared_memory):
        yield from rule(job)


def _threads(job: TrainingJob) -> Iterator[Contradiction]:
    value = job.env.get(THREADS)
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"0*[1-9]\d*", value)):
        said = quote(value) if isinstance(value, str) else "a Secret's value"
        yield of(("env", THREADS), f"{said} is not allowed; it takes a whole number of at least 1")


def _gpus(job: TrainingJob) -> Iterator[Contradiction]:
    if job.backend != "nccl":
        return
    text = "nccl needs a GPU for each process, and `processesPerNode` is {}"
    for path, gpus in (
        (("gpus",), job.gpus),
        (("master", "gpus"), None if job.master is None else job.master.gpus),
    ):
        if gpus is not None and gpus < job.processes_per_node:
            told = f"{gpus} is too few: {text.format(job.processes_per_node)}"
            yield of(path, told, "backend", "processes_per_node")


def _timeouts(job: TrainingJob) -> Iterator[Contradiction]:
    # The default is nobody's word: a short `timeout` alone ends the run before it.
    if job.start_timeout > job.timeout and job.start_timeout != START_TIMEOUT:
        text = f"{job.start_timeout} could never pass: the {job.timeout} of `timeout` end the run"
        yield of(("start_timeout",), f"{text} before; make it less, or `timeout` more", "timeout")


def _shared_memory(job: TrainingJob) -> Iterator[Contradiction]:
    if job.shared_memory is None:
        return
    for role in roles(job):
        limit = share(job, role).memory_limit
        if quantities.size(job.shared_memory) > quantities.size(limit):
            text = f"{job.shared_memory} is more than the {limit} of memory that a {role} may use"
            told = f"{text}, /dev/shm included; ask for less, or raise the limit"
            yield of(("shared_memory",), told, "memory", "limits", "master")
            return  # Once is enough, though both are too small.
