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
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
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
from tests.bench.simulated import Batch, Look, Settings, Simulated, Used, usage

OURS = Settings(8, 100, 200)
"""What a stack's operator has (`clusters/operator/deployment.yaml`)."""
OTHERS = (Settings(), Settings(8), Settings(1, 100, 200))
_LIMIT = 30 * 60.0
_STEADY_SECONDS = 20.0
_POLL_SECONDS = 2.0
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


class Waited(NamedTuple):
    """What some waits in one process took.

    Args:
        waits: How many there were.
        ranks: Of each run.
        cpu: Seconds, from the submission to the result.
        steady: CPU seconds in each second while all of them train and print a line a second.
        megabytes: Of memory at most, less what the process has without them.
        threads: The most at a time, the bench's two among them.
        requests: By who sent them, while all of them train, in each second.
        server: CPU seconds of API server and etcd in each second then.
        states: How the runs ended.
    """

    waits: int
    ranks: int
    cpu: float
    steady: float
    megabytes: float
    threads: int
    requests: Mapping[str, float]
    server: float
    states: Counter[str]


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
            _settings(cluster, plan)
            _sizes(cluster, plan)
            idle = _idle(cluster)
            waited = [_wait(cluster, count, 1) for count in plan.waits]
            polled = _polled(cluster, waited[-1])
            _print_waits([*waited, _wait(cluster, 1, plan.wide)])
            _print_watch(waited[-1], polled, idle)
            _print_programs(cluster.look())


def _settings(cluster: Simulated, plan: Plan) -> None:
    table = _table("operator: threads and requests a second", "ranks", "jobs", *_RATES)
    for settings in plan.settings:
        cluster.operate(settings)
        name = f"{settings}{' (ours)' if settings == OURS else ''}"
        for size, count in plan.tried:
            table.add_row(name, *_row(cluster.run(size, count, 240)))
    _show(table)


def _sizes(cluster: Simulated, plan: Plan) -> None:
    table = _table(f"operator with {cluster.settings}", "ranks", "jobs", *_RATES)
    requests = _table("requests a job, by verb", "requests")
    for size, count in plan.sizes:
        batch = cluster.run(size, count, 400)
        table.add_row("", *_row(batch))
        most = batch.cost.requests.most_common(9)
        named = ", ".join(f"{verb} {what} {n / count:.1f}" for (verb, what), n in most)
        requests.add_row(f"{size} ranks", named)
    _show(table)
    _show(requests)


_RATES = (
    "jobs/min", "ranks/s", "CPU s a job: operator", "server, etcd", "others", "double",
    "requests a job: operator", "scheduler", "controllers", "submitting",
)  # fmt: skip
_FLOWS = {
    "operator": ("service-accounts",),
    "scheduler": ("kube-scheduler",),
    "controllers": ("kube-controller-manager", "kube-system-service-accounts"),
    "waits": ("global-default",),
}
"""Flow schemas by who is in them: coredns, in the operator's, only watches."""


def _row(batch: Batch) -> list[str]:
    cost, count = batch.cost, batch.jobs
    cpu = _by_part(cost.used)
    sent = (sum(cost.flows[name] for name in names) / count for names in _FLOWS.values())
    missed = "" if batch.running == count else f" of {count}"
    return [
        str(batch.size),
        f"{batch.running}{missed}",
        f"{batch.jobs_a_minute:.0f}",
        f"{batch.pods_a_second:.1f}",
        *(f"{cpu[part] / count:.3f}" for part in ("operator", "server", "others", "double")),
        *(f"{each:.1f}" for each in sent),
    ]


def _by_part(used: Mapping[str, Used]) -> Counter[str]:
    parts = {"operator": "operator", "kube-apiserver": "server", "etcd": "server"}
    cpu = Counter[str]()
    for name, each in used.items():
        part = "double" if "double" in name else parts.get(name.removesuffix("-server"), "others")
        cpu[part] += each.cpu  # type: ignore[assignment]  # Counter sums any numbers
    return cpu


def _idle(cluster: Simulated) -> Look:
    before = cluster.look()
    time.sleep(_STEADY_SECONDS)
    return cluster.look().since(before)


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
        samples[-1].cpu - samples[0].cpu,
        (last.cpu - first.cpu) / (last.at - first.at),
        max(each.megabytes for each in samples) - samples[0].megabytes,
        max(each.threads for each in samples),
        {name: _sent(steady, name) for name in _FLOWS},
        _by_part(steady.used)["server"] / steady.at,
        states,
    )


def _sent(look: Look, name: str) -> float:
    return sum(look.flows[each] for each in _FLOWS[name]) / look.at


def wait_for(inputs: Sequence[Mapping[str, Any]]) -> tuple[list[Sample], Counter[str]]:
    """Create runs as the engine does, each in a thread; return what that took, and their states."""
    samples, ended = [_sample()], threading.Event()

    def create(own: Mapping[str, Any]) -> str:
        context = Silence(urn=f"{_URN}{own['job']['name']}")
        return str(PyTorchJobHandler().create(dict(own), context)[1]["result"]["state"])

    def look() -> None:
        while not ended.wait(0.5):
            samples.append(_sample())

    watching = threading.Thread(target=look)
    watching.start()
    try:
        with ThreadPoolExecutor(len(inputs)) as pool:
            states = Counter(pool.map(create, inputs))
    finally:
        ended.set()
        watching.join()
    return [*samples, _sample()], states


def _sample() -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    megabytes = pages * resource.getpagesize() / 2**20
    return Sample(time.monotonic(), time.process_time(), megabytes, usage(os.getpid()).threads)


def poll(kubeconfig: str, names: Sequence[str], seconds: float) -> tuple[float, int]:
    """List the pods of jobs, and get the jobs, every two seconds; return the CPU, and how often."""
    client, began, cpu, rounds = kube.connect(kubeconfig), time.monotonic(), time.process_time(), 0
    apis = [JobApi(client, JOBS, name) for name in names]
    while time.monotonic() < began + seconds:
        for api in apis:
            api.get()
            api.pods()
        rounds += 1
        time.sleep(max(0.0, began + rounds * _POLL_SECONDS - time.monotonic()))
    return (time.process_time() - cpu) / (time.monotonic() - began), rounds


def _polled(cluster: Simulated, waited: Waited) -> Waited:
    """Return what it costs to ask about the same runs, which have ended, again and again."""
    names = [f"w{waited.waits}-{waited.ranks}-{number}" for number in range(waited.waits)]
    with _one_process(cluster.directory) as pool:
        pool.submit(time.sleep, 0).result()
        before = cluster.look()
        done: Future[tuple[float, int]]
        done = pool.submit(poll, cluster.kubeconfig, names, _STEADY_SECONDS)
        steady, _ = done.result(_LIMIT)
        cost = cluster.look().since(before)
    requests = {name: _sent(cost, name) for name in _FLOWS}
    server = _by_part(cost.used)["server"] / cost.at
    return waited._replace(steady=steady, requests=requests, server=server)


@contextmanager
def _one_process(directory: Path) -> Iterator[ProcessPoolExecutor]:
    state = (str(directory / "state"),)
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_with_state, initargs=state) as pool:
        try:
            yield pool
        except BaseException:
            # Nothing ends the runs that it waits for any more.
            for each in pool._processes.values():
                each.kill()
            raise


def _with_state(directory: str) -> None:
    os.environ["XDG_STATE_HOME"] = directory


def _print_waits(waited: Iterable[Waited]) -> None:
    table = _table(
        "waits in one process", "ranks", "threads", "MB each", "CPU s a run",
        "CPU ms/s a run, steady", "requests/s a run, steady", "ended",
    )  # fmt: skip
    for each in waited:
        table.add_row(
            str(each.waits),
            str(each.ranks),
            str(each.threads),
            f"{each.megabytes / each.waits:.1f}",
            f"{each.cpu / each.waits:.2f}",
            f"{1000 * each.steady / each.waits:.1f}",
            f"{each.requests['waits'] / each.waits:.2f}",
            ", ".join(f"{state} {n}" for state, n in each.states.items()),
        )
    _show(table)


def _print_watch(watched: Waited, polled: Waited, idle: Look) -> None:
    table = _table(
        f"{watched.waits} runs, in each second", "requests", "CPU ms: waiting", "server, etcd"
    )
    nothing = _by_part(idle.used)["server"] / idle.at
    table.add_row("none", f"{_sent(idle, 'waits'):.1f}", "", f"{1000 * nothing:.0f}")
    for name, each in (("watched, with logs", watched), ("asked every 2 s, no logs", polled)):
        values = (1000 * each.steady, 1000 * each.server)
        table.add_row(name, f"{each.requests['waits']:.1f}", *(f"{value:.0f}" for value in values))
    _show(table)


def _print_programs(look: Look) -> None:
    table = _table("programs, at the end", "CPU s", "most MB", "threads")
    for name, each in sorted(look.used.items(), key=lambda item: -item[1].cpu):
        if each.cpu >= 1:
            table.add_row(name, f"{each.cpu:.0f}", f"{each.megabytes:.0f}", str(each.threads))
    _show(table)


def commands(plan: Plan) -> None:
    """Measure commands in a copy of the checkout, and print the tables."""
    scratch = Scratch.copy_of(CHECKOUT)
    stack = CopiedStack(scratch)
    try:
        (scratch.checkout / "noop.py").write_text('print("done")\n')
        stack.declare(1)
        stack.cost("make preview")  # Not counted: it makes what the copy lacks.
        _print_slopes("make preview", stack, plan, _floor(stack, plan))
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

    def declare(self, count: int, first: int = 0, cpu: str = "50m") -> None:
        """Have the stack run jobs of one pod that do nothing."""
        job = {"script": "noop.py", "workers": 0, "cpu": cpu, "memory": "256Mi"}
        config = {
            "slipway:cluster": {"kind": "embedded"},
            "slipway:jobs": {f"noop-{number}": job for number in range(first, first + count)},
        }
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


def _print_slopes(
    command: str, stack: CopiedStack, plan: Plan, floor: Sequence[Cost] | None = None
) -> None:
    table = _table("CPU s, wall s", "1 job", f"{plan.jobs} jobs", "CPU ms a job", "target")
    costs = []
    for count in (1, plan.jobs):
        stack.declare(count)
        costs.append(stack.cost(command))
    named = {command: costs} | ({} if floor is None else {"as many empty resources": floor})
    for name, (one, many) in named.items():
        slope = (many.cpu - one.cpu) / (plan.jobs - 1)
        verdict = "met" if slope <= _CPU_A_JOB else "missed"
        target = f"≤ {1000 * _CPU_A_JOB:g}: {verdict}" if name == command else ""
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
        verdict = "met" if up <= limit else "missed"
        times = (f"{each:.1f}" for each in (up, kubectl, limit))
        table.add_row(str(number), *times, f"≤ {_UP_RATIO} times + {_UP_SECONDS:g} s: {verdict}")
    _show(table)


def _by_kubectl(kubectl: Sequence[str], name: str) -> float:
    """Return how many seconds kubectl takes to run a copy of a job, and to wait for its end."""

    def call(*arguments: str, text: str = "") -> Any:
        done = subprocess.run(
            [*kubectl, *arguments], input=text, text=True, check=True, capture_output=True
        )
        return done.stdout

    job = json.loads(call("get", "pytorchjob", name, "--output=json"))
    (role,) = job["spec"]["pytorchReplicaSpecs"].values()
    volumes = role["template"]["spec"].get("volumes", ())
    maps = [each["configMap"]["name"] for each in volumes if "configMap" in each]
    others = [json.loads(call("get", "configmap", each, "--output=json")) for each in maps]
    copies = [json.loads(json.dumps(each)) for each in (*others, job)]
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
    stack.declare(1)
    one = stack.cost("make up")
    again = stack.cost("make up")
    stack.declare(plan.jobs)
    cost = stack.cost("make up")
    many = stack.cost("make up")
    jobs = plan.jobs - 1
    table = _table("real cluster", "CPU s, wall s", "result", "target")
    rate = f"{60 * jobs / cost.wall:.1f} jobs/min"
    table.add_row(f"make up, {jobs} jobs of one pod", str(cost), rate, "")
    table.add_row(f"make up that removes {plan.ups}", str(one), "", "")
    slope = (many.cpu - again.cpu) / jobs
    verdict = "met" if slope <= _CPU_A_JOB else "missed"
    table.add_row("second make up, 1 job", str(again), "", "")
    table.add_row(
        f"second make up, {plan.jobs} jobs", str(many), f"{1000 * slope:.0f} ms of CPU a job",
        f"≤ {1000 * _CPU_A_JOB:g}: {verdict}",
    )  # fmt: skip
    _show(table)


def _table(*names: str) -> Table:
    return Table(*names, box=box.SIMPLE_HEAD)


def _show(table: Table) -> None:
    Console(width=160).print(table)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
