"""`make bench-scale`: how much the parts carry, where they bend, and what a job costs.

The first half has a simulated cluster of many nodes (`simulated.py`): kwok plays the kubelets, and
no program runs. The second half is real: commands in a copy of the checkout with state of its own
(`scripts/scratch.py`), on an embedded cluster that they create. Each prints tables.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from clusters.cluster import JOBS
from clusters.embedded import pki
from clusters.embedded.layout import Layout
from core import kube, toolchain
from core.context import Silence
from core.paths import CHECKOUT
from jobs.api.client import JobApi
from jobs.run.lifecycle import PyTorchJobHandler
from scripts.scratch import Finished, Scratch
from tests.bench.commands import Cost, measure
from tests.bench.simulated import Look, Settings, Simulated

OURS = Settings(8, 100, 200)
"""What a stack's operator has (`clusters/operator/deployment.yaml`)."""
OTHERS = (Settings(), Settings(8), Settings(1, 100, 200))
_LIMIT = 30 * 60.0
_STEADY_SECONDS = 20.0
_POLL_SECONDS = 2.0
_WAITS = "global-default"
"""The flow of those who wait."""
_URN = "urn:pulumi:scale::slipway::slipway:jobs:PyTorchJob::"
_CPU_A_JOB = 0.015
_UP_RATIO, _UP_SECONDS = 1.15, 2.0


class Plan(NamedTuple):
    """How much is measured.

    Args:
        nodes: How many are simulated.
        settings: The operator's, each of which runs the jobs of `tried`.
        tried: Sizes of jobs, and how many of each.
        sizes: The same, for the last of these settings.
        waits: How many runs one process waits for at once.
        wide: The ranks of one run that is waited for.
        jobs: How many are previewed, and run on the real cluster if `ups`.
        ups: Rounds of one job.
    """

    nodes: int
    settings: tuple[Settings, ...]
    tried: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    waits: tuple[int, ...] = (1, 10, 100)
    wide: int = 512
    jobs: int = 100
    ups: int = 3
    many_run: bool = True


FULL = Plan(
    1000, (*OTHERS, OURS), ((1, 60), (8, 15)), ((1, 200), (4, 60), (8, 40), (64, 5), (512, 1))
)
QUICK = Plan(
    200, (OTHERS[0], OURS), ((1, 20), (8, 5)), ((1, 40), (8, 8), (128, 1)),
    wide=128, ups=1, many_run=False,
)  # fmt: skip


class Sample(NamedTuple):
    """What the waiting process has used at a moment of the monotonic clock."""

    at: float
    cpu: float
    megabytes: float
    threads: int

    @staticmethod
    def take() -> "Sample":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * resource.getpagesize() / 2**20
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
        return Sample(time.monotonic(), time.process_time(), megabytes, threads)


class Waited(NamedTuple):
    """What some waits in one process took.

    Args:
        waits: How many there were.
        ranks: Of each run.
        megabytes: Of memory at most, less what the process has without them.
        threads: The most at a time, the bench's two among them.
        steady: CPU seconds in each second while all of them train and print a line a second.
        requests: In each second then.
        server: CPU seconds of API server and etcd in each second then.
        states: How the runs ended.
    """

    waits: int
    ranks: int
    megabytes: float
    threads: int
    steady: float
    requests: float
    server: float
    states: "Counter[str]"


def main() -> int:
    """Print the tables. Exits with 0 whatever the figures, which a busy machine may distort."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most ten minutes")
    parser.add_argument("--only", choices=("simulated", "commands"), help="one half alone")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    began = time.monotonic()
    if arguments.only != "commands":
        simulated(plan)
    if arguments.only != "simulated":
        commands(plan)
    print(f"load {os.getloadavg()[0]:.1f}, {(time.monotonic() - began) / 60:.1f} min")
    return 0


def simulated(plan: Plan) -> None:
    """Measure on a simulated cluster of many nodes, and print the tables."""
    # Keep the path short: the node's sockets are below it.
    with tempfile.TemporaryDirectory(prefix="slw-") as directory:
        began = time.monotonic()
        with Simulated(Path(directory), plan.nodes) as cluster:
            print(f"{plan.nodes} nodes after {time.monotonic() - began:.0f} s", flush=True)
            table = _table(
                "operator: threads and requests a second", "ranks", "jobs", "jobs/min", "ranks/s",
                "CPU s a job: operator", "server, etcd", "operator's requests a job",
            )  # fmt: skip
            for settings in plan.settings:
                cluster.operate(settings)
                name = f"{settings}{' (ours)' if settings == OURS else ''}"
                for size, count in plan.sizes if settings == OURS else plan.tried:
                    table.add_row(name, *_row(cluster, size, count))
            _show(table)
            before = cluster.look()
            time.sleep(_STEADY_SECONDS)
            idle = cluster.look().since(before)
            waited = [_wait(cluster, count, 1) for count in plan.waits]
            polled = _polled(cluster, waited[-1])
            _print_waits([*waited, _wait(cluster, 1, plan.wide)])
            _print_watch(waited[-1], polled, idle)


def _row(cluster: Simulated, size: int, count: int) -> list[str]:
    batch = cluster.run(size, count, 400)
    cost, missed = batch.cost, "" if batch.running == count else f" of {count}"
    return [
        str(size),
        f"{batch.running}{missed}",
        f"{60 * batch.running / batch.seconds:.0f}",
        f"{size * batch.running / batch.seconds:.1f}",
        *(f"{cost.cpu[part] / count:.3f}" for part in ("operator", "server")),
        # coredns, in the same flow, only watches.
        f"{cost.flows['service-accounts'] / count:.1f}",
    ]


def _wait(cluster: Simulated, count: int, ranks: int) -> Waited:
    """Wait for runs as `up` does, in a process of its own that does nothing else."""
    batch = f"w{count}-{ranks}"
    cluster.ended.unlink(missing_ok=True)
    jobs = [cluster.job(f"{batch}-{number}", ranks, batch) for number in range(count)]
    with _one_process(cluster.directory) as pool:
        done = pool.submit(wait_for, [cluster.inputs(each) for each in jobs])
        cluster.await_running(batch, count, 300)
        time.sleep(_STEADY_SECONDS / 4)
        before = cluster.look()
        time.sleep(_STEADY_SECONDS)
        steady = cluster.look().since(before)
        cluster.end(jobs, 300)
        cluster.ended.touch()
        samples, states = done.result(_LIMIT)
    first, last = (
        next(each for each in samples if each.at >= at)
        for at in (before.at, before.at + steady.at - 1)
    )
    return Waited(
        count,
        ranks,
        max(each.megabytes for each in samples) - samples[0].megabytes,
        max(each.threads for each in samples),
        (last.cpu - first.cpu) / (last.at - first.at),
        steady.flows[_WAITS] / steady.at,
        steady.cpu["server"] / steady.at,
        states,
    )


def wait_for(inputs: Sequence[Mapping[str, Any]]) -> "tuple[list[Sample], Counter[str]]":
    """Create runs as the engine does, each in a thread; return what that took, and their states."""
    samples, ended = [Sample.take()], threading.Event()

    def create(own: Mapping[str, Any]) -> str:
        context = Silence(urn=f"{_URN}{own['job']['name']}")
        return str(PyTorchJobHandler().create(dict(own), context)[1]["result"]["state"])

    def look() -> None:
        while not ended.wait(0.5):
            samples.append(Sample.take())

    watching = threading.Thread(target=look)
    watching.start()
    try:
        with ThreadPoolExecutor(len(inputs)) as pool:
            states = Counter(pool.map(create, inputs))
    finally:
        ended.set()
        watching.join()
    return [*samples, Sample.take()], states


def poll(kubeconfig: str, names: Sequence[str], seconds: float) -> float:
    """List the pods of jobs, and get the jobs, every two seconds; return the CPU in each second."""
    client, began, cpu, rounds = kube.connect(kubeconfig), time.monotonic(), time.process_time(), 0
    apis = [JobApi(client, JOBS, name) for name in names]
    while time.monotonic() < began + seconds:
        for api in apis:
            api.get()
            api.pods()
        rounds += 1
        time.sleep(max(0.0, began + rounds * _POLL_SECONDS - time.monotonic()))
    return (time.process_time() - cpu) / (time.monotonic() - began)


def _polled(cluster: Simulated, waited: Waited) -> Waited:
    """Return what it costs to ask about the same runs, which have ended, again and again."""
    names = [f"w{waited.waits}-{waited.ranks}-{number}" for number in range(waited.waits)]
    with _one_process(cluster.directory) as pool:
        pool.submit(time.sleep, 0).result()
        before = cluster.look()
        steady = pool.submit(poll, cluster.kubeconfig, names, _STEADY_SECONDS).result(_LIMIT)
        cost = cluster.look().since(before)
    requests, server = cost.flows[_WAITS] / cost.at, cost.cpu["server"] / cost.at
    return waited._replace(steady=steady, requests=requests, server=server)


def _set(variable: str, value: str) -> None:
    os.environ[variable] = value


@contextmanager
def _one_process(directory: Path) -> Iterator[ProcessPoolExecutor]:
    state = ("XDG_STATE_HOME", str(directory / "state"))
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_set, initargs=state) as pool:
        try:
            yield pool
        except BaseException:
            # Nothing ends the runs that it waits for any more.
            for each in pool._processes.values():
                each.kill()
            raise


def _print_waits(waited: Iterable[Waited]) -> None:
    table = _table(
        "waits in one process", "ranks", "threads", "MB each", "CPU ms/s of all, steady",
        "requests/s of all, steady", "ended",
    )  # fmt: skip
    for each in waited:
        table.add_row(
            str(each.waits),
            str(each.ranks),
            str(each.threads),
            f"{each.megabytes / each.waits:.1f}",
            f"{1000 * each.steady:.0f}",
            f"{each.requests:.1f}",
            ", ".join(f"{state} {n}" for state, n in each.states.items()),
        )
    _show(table)


def _print_watch(watched: Waited, polled: Waited, idle: Look) -> None:
    title = f"{watched.waits} runs, in each second"
    table = _table(title, "requests", "CPU ms: waiting", "server, etcd")
    nothing = (
        f"{idle.flows[_WAITS] / idle.at:.1f}",
        "",
        f"{1000 * idle.cpu['server'] / idle.at:.0f}",
    )
    table.add_row("none", *nothing)
    for name, each in (("watched, with logs", watched), ("asked every 2 s, no logs", polled)):
        values = (f"{1000 * value:.0f}" for value in (each.steady, each.server))
        table.add_row(name, f"{each.requests:.1f}", *values)
    _show(table)


def commands(plan: Plan) -> None:
    """Measure commands in a copy of the checkout, and print the tables."""
    scratch = Scratch.copy_of(CHECKOUT)
    stack = CopiedStack(scratch)
    try:
        (scratch.checkout / "noop.py").write_text('print("done")\n')
        stack.declare(1)
        stack.cost("make preview")  # Not counted: it makes what the copy lacks.
        _print_slopes(stack, plan)
        stack.declare(1)
        first = stack.cost("make up")
        print(f"first make up, cluster and one job: {first.wall:.0f} s", flush=True)
        _print_ups(stack, plan)
        if plan.many_run:
            _print_many(stack, plan)
    finally:
        scratch.run("make down", _LIMIT)
        scratch.remove()


class CopiedStack(NamedTuple):
    """The stack `dev` of a copy of the checkout."""

    scratch: Scratch

    def declare(self, count: int) -> None:
        """Have the stack run jobs of one pod that do nothing."""
        job = {"script": "noop.py", "workers": 0, "cpu": "50m", "memory": "256Mi"}
        jobs = {f"noop-{number}": job for number in range(count)}
        config = {"slipway:cluster": {"kind": "embedded"}, "slipway:jobs": jobs}
        (self.scratch.checkout / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}))

    def cost(self, command: str) -> Cost:
        """Run a command to its end; raises `RuntimeError` if it failed."""
        print(f"{self.scratch.checkout}: {command}", file=sys.stderr, flush=True)
        finished: Finished
        finished, cost = measure(self.scratch.run, command, _LIMIT)
        if finished.code != 0:
            raise RuntimeError(str(finished))
        return cost

    def kubectl(self) -> list[str]:
        """Return kubectl's command for the stack's cluster."""
        (authority,) = self.scratch.state_home.glob("slipway/**/pki/admin.crt")
        file = self.scratch.directory / "kubeconfig"
        file.touch(0o600)
        file.write_text(pki.kubeconfig(Layout(authority.parent.parent), "admin"))
        return [str(toolchain.path("kubectl")), f"--kubeconfig={file}", f"--namespace={JOBS}"]


_EMPTY = """
import os
import pulumi
for number in range(int(os.environ["EMPTY"])):
    pulumi.ComponentResource("bench:scale:Empty", f"empty-{number}")
"""
_RESOURCES_A_JOB = 3


def _floor(stack: CopiedStack, plan: Plan) -> list[Cost]:
    """Return what a preview costs of as many resources that are and do nothing."""
    directory = stack.scratch.checkout / "floor"
    directory.mkdir()
    (directory / "__main__.py").write_text(_EMPTY)
    options = {"virtualenv": "../.venv"}
    project = {"name": "floor", "runtime": {"name": "python", "options": options}}
    (directory / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    enter = 'eval "$(make -s env)" && cd floor && export PULUMI_SKIP_CHECKPOINTS=true'
    stack.cost(f"{enter} && pulumi stack init floor")
    counts = (_RESOURCES_A_JOB, _RESOURCES_A_JOB * plan.jobs)
    preview = "pulumi preview --stack floor --non-interactive --suppress-outputs"
    return [stack.cost(f"{enter} && EMPTY={count} {preview}") for count in counts]


def _judged(value: float, limit: float) -> str:
    return "met" if value <= limit else "missed"


def _print_slopes(stack: CopiedStack, plan: Plan) -> None:
    table = _table("CPU s, wall s", "1 job", f"{plan.jobs} jobs", "CPU ms a job", "target")
    floor, costs = _floor(stack, plan), []
    for count in (1, plan.jobs):
        stack.declare(count)
        costs.append(stack.cost("make preview"))
    for name, (one, many) in {"make preview": costs, "as many empty resources": floor}.items():
        slope = (many.cpu - one.cpu) / (plan.jobs - 1)
        target = f"≤ {1000 * _CPU_A_JOB:g}: {_judged(slope, _CPU_A_JOB)}" if one in costs else ""
        table.add_row(name, str(one), str(many), f"{1000 * slope:.0f}", target)
    _show(table)


def _print_ups(stack: CopiedStack, plan: Plan) -> None:
    """Print how long `up` of a new job takes beside kubectl with the same objects, in turns."""
    table = _table("one job on a ready cluster, s", "make up", "kubectl", "limit", "target")
    for number in range(1, plan.ups + 1):
        # The one before it is removed, and is no part of what is compared.
        stack.declare(number + 1)
        up = stack.cost("make up").wall
        kubectl = _by_kubectl(stack.kubectl(), f"noop-{number}")
        limit = _UP_RATIO * kubectl + _UP_SECONDS
        times = (f"{each:.1f}" for each in (up, kubectl, limit))
        target = f"≤ {_UP_RATIO} times + {_UP_SECONDS:g} s: {_judged(up, limit)}"
        table.add_row(str(number), *times, target)
    _show(table)


def _by_kubectl(kubectl: Sequence[str], name: str) -> float:
    """Return how many seconds kubectl takes to run a copy of a job, and to wait for its end."""

    def call(*arguments: str, text: str = "") -> str:
        return subprocess.run(
            [*kubectl, *arguments], input=text, text=True, check=True, capture_output=True
        ).stdout

    job = json.loads(call("get", "pytorchjob", name, "--output=json"))
    (role,) = job["spec"]["pytorchReplicaSpecs"].values()
    volumes = role["template"]["spec"].get("volumes", ())
    maps = [each["configMap"]["name"] for each in volumes if "configMap" in each]
    copies = [*(json.loads(call("get", "configmap", each, "--output=json")) for each in maps), job]
    for each in copies:
        each.pop("status", None)
        own = each["metadata"]
        each["metadata"] = {"name": f"{own['name']}-copy", "labels": own.get("labels") or {}}
    renamed = json.dumps({"apiVersion": "v1", "kind": "List", "items": copies})
    for each in maps:
        renamed = renamed.replace(f'"name": "{each}"', f'"name": "{each}-copy"')
    began = time.monotonic()
    call("apply", "--filename=-", text=renamed)
    call("wait", "--for=condition=Succeeded", f"pytorchjob/{name}-copy", "--timeout=300s")
    return time.monotonic() - began


def _print_many(stack: CopiedStack, plan: Plan) -> None:
    """Print how many jobs that do nothing the real cluster runs in a minute, and `up` again."""
    costs = []
    for count in (1, 1, plan.jobs, plan.jobs):
        stack.declare(count)
        costs.append(stack.cost("make up"))
    removing, again, running, many = costs
    jobs = plan.jobs - 1
    slope = (many.cpu - again.cpu) / jobs
    table = _table("real cluster", "CPU s, wall s", "result", "target")
    rate = f"{60 * jobs / running.wall:.1f} jobs/min"
    result, target = f"{1000 * slope:.0f} ms of CPU a job", f"≤ {1000 * _CPU_A_JOB:g}"
    table.add_row(f"make up, {jobs} jobs of one pod", str(running), rate, "")
    table.add_row(f"make up that removes {plan.ups}", str(removing), "", "")
    table.add_row("second make up, 1 job", str(again), "", "")
    verdict = f"{target}: {_judged(slope, _CPU_A_JOB)}"
    table.add_row(f"second make up, {plan.jobs} jobs", str(many), result, verdict)
    _show(table)


def _table(*names: str) -> Table:
    return Table(*names, box=box.SIMPLE_HEAD)


def _show(table: Table) -> None:
    Console(width=160).print(table)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
