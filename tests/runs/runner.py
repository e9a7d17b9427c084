"""Training runs and their gates, brought about by their handlers alone, on a real cluster.

What the CLI adds is left out: previews, `dependsOn`, outputs, interrupts.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from clusters.cluster import JOBS
from core.handler import Handler, Properties
from infra.provider.engine import plain_map, wrap_map
from jobs.model import volumes
from jobs.model.job import TrainingJob
from jobs.model.places import VOLUME_URL
from jobs.model.submission import Submission
from jobs.run.gate import GateHandler, limits
from jobs.run.lifecycle import PyTorchJobHandler
from tests.engine.awaiting import COMMAND_SECONDS
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.declared import read_jobs

_RUN, _GATE = "slipway:jobs:PyTorchJob", "slipway:jobs:Gate"


@dataclass
class Recorded:
    """A `Context` that remembers what it was told."""

    urn: str
    cancelled: threading.Event = field(default_factory=threading.Event)  # set it to press Ctrl-C
    rows: list[str] = field(default_factory=list)  # what the resource's row showed
    lines: list[str] = field(default_factory=list)  # the infos and warnings, which stay
    told: list[str] = field(default_factory=list)  # all of them, in order

    def status(self, message: str) -> None:
        self.rows.append(message)
        self.told.append(message)

    def info(self, message: str) -> None:
        self.lines.append(message)
        self.told.append(message)

    def warn(self, message: str) -> None:
        self.info(message)


@dataclass
class Attempt:
    """A run and its gate on their way to what was declared."""

    context: Recorded
    steps: dict[str, str] = field(default_factory=dict)  # what was done, as {"Gate": "replace"}
    error: Exception | None = None
    future: "Future[None]" = field(default_factory=Future)  # of one that goes on beside the test

    @property
    def text(self) -> str:
        """All that was said so far, the error last."""
        return "\n".join([*self.context.told, *([] if self.error is None else [str(self.error)])])

    def end(self) -> "Attempt":
        """Wait for its end, however it ends."""
        self.future.result(COMMAND_SECONDS)
        return self


@dataclass
class Runs:
    """What there is of runs and gates, as a stack's state has it."""

    kubeconfig: str = field(repr=False)
    trainer: str
    jobs: Jobs
    waiter: str | None = None  # the image of what waits for jobs with `wait: false`
    hook: Mapping[str, Any] | None = None  # what is told when a run ends
    _states: dict[tuple[str, str], tuple[str, Properties]] = field(default_factory=dict)
    _creating: dict[tuple[str, str], Properties] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _objects: list[dict[str, Any]] = field(default_factory=list)

    def train(self, name: str, **declared: Any) -> Attempt:
        """Bring one job to what is declared; fail unless that succeeds."""
        attempt = self._begun(name)
        self._bring(attempt, name, declared)
        assert attempt.error is None, attempt.text
        return attempt

    def train_in_vain(self, name: str, **declared: Any) -> str:
        """Bring one job to what is declared, fail if it succeeds, and return what was said."""
        attempt = self._begun(name)
        self._bring(attempt, name, declared)
        assert attempt.error is not None, attempt.text
        return attempt.text

    @contextmanager
    def training(self, name: str, **declared: Any) -> Iterator[Attempt]:
        attempt = self._begun(name)
        with ThreadPoolExecutor(1) as pool:
            attempt.future = pool.submit(self._bring, attempt, name, declared)
            try:
                yield attempt
            finally:
                attempt.context.cancelled.set()

    def output(self, name: str) -> Any:
        return self._states[_RUN, name][1]["result"]

    def export(self) -> dict[str, Any]:
        """Return the state as `pulumi stack export --show-secrets` prints it.

        What has no result yet is an operation that was begun.
        """
        there = [
            {"type": type_, "urn": f"test::{name}", "inputs": state, "outputs": state}
            for (type_, name), (_, state) in self._states.items()
        ]
        provider = {"type": "pulumi:providers:kubernetes", "urn": "test::there"}
        resources = [{**provider, "outputs": {"kubeconfig": self.kubeconfig}}, *there]
        begun = [
            {
                "type": "creating",
                "resource": {"type": type_, "urn": f"test::{name}", "inputs": each},
            }
            for (type_, name), each in self._creating.items()
        ]
        return {"deployment": {"resources": resources, "pending_operations": begun}}

    def destroy(self, name: str) -> None:
        """Remove a run, whether or not anybody has waited for its end."""
        key = _RUN, name
        known = self._states[key][1] if key in self._states else self._creating[key]
        PyTorchJobHandler().delete(known, self._begun(name).context)
        self._states.pop(key, None)

    def leave(self) -> None:
        """Remove every run there was, and what its pods needed."""
        for name in self._names:
            self.jobs.remove(name)
        if self._objects:
            self.jobs.kubectl("delete", "--ignore-not-found", "--filename", "-",
                              given=_listed(self._objects))  # fmt: skip

    def _begun(self, name: str) -> Attempt:
        self._names.add(name)
        return Attempt(Recorded(f"urn:pulumi:test::runs::{_RUN}::{name}"))

    def _bring(self, attempt: Attempt, name: str, declared: Mapping[str, Any]) -> None:
        try:
            job, inputs = self._inputs(name, declared)
            self._step(_RUN, PyTorchJobHandler(), attempt, name, inputs)
            gate = {"job": job.name, **limits(job), "result": self.output(name)}
            self._step(_GATE, GateHandler(), attempt, name, _plain(gate))
        except Exception as error:  # noqa: BLE001  # as the engine shows each
            attempt.error = error

    def _inputs(self, name: str, declared: Mapping[str, Any]) -> tuple[TrainingJob, Properties]:
        [job], scripts = read_jobs({name: declared})
        script = scripts.get(name)
        claims = [claim for claim, _ in volumes.claims(job, JOBS)]
        files = [] if script is None else [script.config_map(JOBS)]
        if made := [*files, *volumes.host_volumes(job, JOBS), *claims]:
            self.jobs.kubectl("apply", "--filename", "-", given=_listed(made))
            self._objects += made
        submission = Submission(
            job=job,
            image=job.image or self.trainer,
            script=None if script is None else script.mounted,
            # The volume is there only where a test needs it.
            place=None if job.checkpoint is None else VOLUME_URL,
        )
        waiter = None if job.wait is None else self.waiter
        inputs = {**submission.inputs(), "kubeconfig": self.kubeconfig, "waiter": waiter}
        inputs["hook"] = self.hook
        return job, _plain(inputs)

    def _step(
        self, type_: str, handler: Handler, attempt: Attempt, name: str, inputs: Properties
    ) -> None:
        """Do what the engine does with one resource."""
        key, kind, step = (type_, name), type_.rpartition(":")[2], "create"
        if key in self._states:
            there, state = self._states[key]
            changes = handler.diff(state, inputs, attempt.context)
            if not changes:
                return
            if not any(change.replace for change in changes):
                attempt.steps[kind] = "update"
                outputs = handler.update(state, inputs, attempt.context)
                self._states[key] = there, {**inputs, **_plain(outputs)}
                return
            step = "replace"
            handler.delete(state, attempt.context)
            del self._states[key]
        attempt.steps[kind] = step
        self._creating[key] = inputs
        made, outputs = handler.create(inputs, attempt.context)
        del self._creating[key]
        self._states[key] = made, {**inputs, **_plain(outputs)}


def _plain(properties: Mapping[str, Any]) -> Properties:
    """Return properties as they come to a handler: by way of the engine, nothing None."""
    return plain_map(wrap_map({k: v for k, v in properties.items() if v is not None}))


def _listed(manifests: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
