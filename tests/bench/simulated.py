"""A control plane with a thousand nodes, on two cores.

etcd, API server, scheduler, controller manager and training operator are those of an embedded
cluster, installed as a stack does. The nodes are not: kwok (https://kwok.sigs.k8s.io) writes what
their kubelets would write, by the stages in kwok/stages.yaml, and starts no container. It renews a
node's lease every 40 s, not 10 s, so that a thousand of them leave the cores to what is measured.
"""

import json
import queue
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import yaml
from rich.console import Console

from clusters.cluster import JOBS
from clusters.embedded import health, isolation, lifecycle, network, pki
from clusters.embedded.host import image_reference
from clusters.embedded.layout import Layout
from clusters.operator.operator_ready import OperatorReadyHandler
from clusters.operator.releases import NAME
from clusters.operator.training_operator import deployment, foundations
from core import kube, toolchain
from core.context import Silence
from core.kube import Request
from core.manifests import Manifest, restricted_namespace
from core.paths import CHECKOUT, cache_dir
from infra.namespace import contents
from jobs.api.client import JobApi
from jobs.api.streams import watching
from jobs.model.job import TrainingJob
from jobs.model.names import GPU
from jobs.model.parts import Toleration
from jobs.model.pytorchjob import API_PATH, Topology, has_ended, host
from jobs.model.submission import Submission
from jobs.run.submit import stop_all, submit
from scripts.setup import golang
from scripts.setup.record import Problem
from scripts.setup.steps import Steps
from scripts.setup.tools import GoModule, Tool

BATCH = "scale.slipway.dev/batch"
_END = "scale.slipway.dev/end"
"""The annotation with which a pod's program ends well, by kwok/stages.yaml."""
_HERE = Path(__file__).with_name("kwok")
_LEASE_SECONDS = 160
_LOG_PORT, _OWN_PORT = 10347, 10348
_LIMIT = (5.0, 60.0)
_AT_ONCE = 8
_TICKS = 100.0
"""The kernel's USER_HZ: proc(5)."""
_ROLE_BINDING = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
T = TypeVar("T")


class KwokModule(GoModule):
    """kwok, whose versions and hashes are pinned beside this file: only this benchmark needs it."""

    @property
    def directory(self) -> Path:
        return _HERE


KWOK = KwokModule(
    "kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, "2 min", requires="sigs.k8s.io/kwok"
)


class Settings(NamedTuple):
    """The training operator's settings; by default those that it has if none is set."""

    threads: int = 1
    qps: int = 20
    burst: int = 30

    def __str__(self) -> str:
        return f"{self.threads} and {self.qps}"

    @property
    def flags(self) -> list[str]:
        values = {
            "controller-threads": self.threads,
            "kube-api-qps": self.qps,
            "kube-api-burst": self.burst,
        }
        return [f"--{name}={value}" for name, value in values.items()]


class Used(NamedTuple):
    """What processes have used: seconds of CPU; megabytes at their largest; threads."""

    cpu: float = 0.0
    megabytes: float = 0.0
    threads: int = 0

    def __add__(self, other: object) -> "Used":
        assert isinstance(other, Used)
        megabytes, threads = self.megabytes + other.megabytes, self.threads + other.threads
        return Used(self.cpu + other.cpu, megabytes, threads)


@dataclass(frozen=True)
class Look:
    """What has been counted up to a moment."""

    at: float
    used: Mapping[str, Used]
    flows: Counter[str]
    """Requests by flow schema: who sends them."""
    requests: Counter[tuple[str, str]]
    """Requests by verb and resource."""

    def since(self, before: "Look") -> "Look":
        used = {name: self._own(name, before) for name in self.used}
        return Look(
            self.at - before.at, used, self.flows - before.flows, self.requests - before.requests
        )

    def _own(self, name: str, before: "Look") -> Used:
        mine, its = self.used[name], before.used.get(name, Used())
        # A program that was started anew has begun at 0.
        return mine._replace(cpu=mine.cpu - its.cpu if mine.cpu >= its.cpu else mine.cpu)


@dataclass(frozen=True)
class Batch:
    """Jobs of one size that were submitted at once."""

    size: int
    jobs: int
    running: int
    seconds: float
    """Until all that run by now were running."""
    cost: Look

    @property
    def jobs_a_minute(self) -> float:
        return 60 * self.running / self.seconds

    @property
    def pods_a_second(self) -> float:
        return self.size * self.running / self.seconds


@dataclass
class Simulated:
    """The cluster while its `with` block runs; nothing of it is left afterwards."""

    directory: Path
    nodes: int
    _resources: ExitStack = field(default_factory=ExitStack)
    _kwok: "subprocess.Popen[bytes] | None" = None
    _logs: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.layout = Layout(self.directory / "cluster")
        self.ended = self.directory / "ended"
        self.settings: Settings | None = None

    def __enter__(self) -> Self:
        program = kwok()
        with ExitStack() as entered:
            entered.callback(lifecycle.remove, self.layout.directory)
            lifecycle.bring_up(self.layout, partial(print, flush=True))
            self.kubeconfig = pki.kubeconfig(self.layout, "admin")
            # Of another priority level than a user's, so that neither waits for the other.
            self.api = health.connect(self.layout)
            self._start(entered, program)
            self._create_nodes()
            self._install()
            self._resources = entered.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def ask(self, request: Request, settled: int | None = None) -> Any:
        return kube.ask(self.api, request, limit=_LIMIT, settled=settled)

    def apply(self, *objects: Manifest) -> None:
        """Apply objects with kubectl on the server's side."""
        file = self.directory / "kubeconfig"
        file.touch(0o600)
        file.write_text(self.kubeconfig)
        kubectl = [str(toolchain.path("kubectl")), f"--kubeconfig={file}"]
        subprocess.run(
            [*kubectl, "apply", "--server-side", "--force-conflicts", "--filename=-"],
            input="\n---\n".join(map(json.dumps, objects)),
            text=True,
            check=True,
            capture_output=True,
            timeout=300,
        )

    def operate(self, settings: Settings) -> None:
        """Have the operator run with these settings; it has all else as a stack installs it."""
        source = toolchain.path("training-operator-manifests")
        images = map(image_reference, ("training-operator", "tcp-wait"))
        program = deployment(source, JOBS, *images)
        program["spec"]["template"]["spec"]["containers"][0]["args"] += settings.flags
        self.apply(program)
        self._await_operator()
        self.settings = settings

    def job(self, name: str, ranks: int, batch: str) -> Submission:
        """Return a job of one GPU a rank, so that none of its pods is on the only real node."""
        job = TrainingJob(
            name=name,
            image="scale.local/none:1",
            command=("train",),
            workers=ranks - 1,
            gpus=1,
            tolerations=(Toleration(key=GPU, operator="Exists"),),
            cpu="1",
            memory="1Gi",
            start_timeout=3600,
            labels={BATCH: batch},
        )
        return Submission(job=job, image=job.image)

    def inputs(self, submission: Submission) -> dict[str, Any]:
        """Return what the engine passes to a run's handler."""
        return {**submission.inputs(), "kubeconfig": self.kubeconfig, "result": None}

    def run(self, size: int, count: int, limit: float) -> Batch:
        """Submit jobs at once, wait until all of their ranks run, and have them end."""
        batch = f"b{time.monotonic_ns() % 10**9}"
        jobs = [self.job(f"{batch}-{number}", size, batch) for number in range(count)]
        before, api = self.look(), kube.connect(self.kubeconfig)
        _at_once(partial(self._submit, api), jobs)
        running, until = self._await(batch, count, before.at + limit, _all_run)
        self.end(jobs, limit)
        return Batch(size, count, running, until - before.at, self.look().since(before))

    def await_running(self, batch: str, count: int, limit: float) -> None:
        """Wait until all ranks of a batch's jobs run, at most for a time."""
        self._await(batch, count, time.monotonic() + limit, _all_run)

    def end(self, jobs: Sequence[Submission], limit: float) -> None:
        """End the programs of jobs of one size, rank 0 last, and wait until the jobs have ended."""
        end = {"metadata": {"annotations": {_END: "now"}}}
        roles = (*(("worker", n) for n in range(jobs[0].job.workers)), ("master", 0))
        names = [(each.job.name, *role) for role in roles for each in jobs]
        # It asks again when a busy API server does not answer.
        _at_once(lambda name: JobApi(self.api, JOBS, name[0]).patch(end, host(*name)), names)
        batch = jobs[0].job.labels[BATCH]
        self._await(batch, len(jobs), time.monotonic() + limit, has_ended)

    def look(self) -> Look:
        """Look at what has been counted so far."""
        metrics = kube.send(self.api, Request("GET", "/metrics"), limit=_LIMIT).data.decode()
        flows, requests = Counter[str](), Counter[tuple[str, str]]()
        for name, labels, value in _SAMPLE.findall(metrics):
            if name == "apiserver_flowcontrol_dispatched_requests_total":
                flows[dict(_LABEL.findall(labels))["flow_schema"]] += int(float(value))
            elif name == "apiserver_request_total":
                told = dict(_LABEL.findall(labels))
                what = "/".join(filter(None, (told["resource"], told["subresource"])))
                requests[told["verb"], what] += int(float(value))
        used: dict[str, Used] = {}
        own = {each.pid: name for name, each in self._programs.items()}
        for pid in isolation.processes(self.layout) | own.keys():
            with suppress(OSError):
                name = own.get(pid) or _program(pid)
                used[name] = used.get(name, Used()) + usage(pid)
        return Look(time.monotonic(), used, flows, requests)

    @property
    def _programs(self) -> dict[str, "subprocess.Popen[bytes]"]:
        named = {"kwok (double)": self._kwok, "logs (double)": self._logs}
        return {name: each for name, each in named.items() if each is not None}

    def _submit(self, api: Any, submission: Submission) -> None:
        submit(JobApi(api, JOBS, submission.job.name), submission, {}, Silence())

    def _await(
        self, batch: str, count: int, deadline: float, is_met: Callable[[Manifest], bool]
    ) -> tuple[int, float]:
        met, at = 0, time.monotonic()
        listings: queue.SimpleQueue[list[Manifest]] = queue.SimpleQueue()
        wait = (batch, listings.put, lambda _error: None)
        with (
            watching(self.api, API_PATH.format(namespace=JOBS), BATCH, wait),
            suppress(queue.Empty),
        ):
            while met < count and (left := deadline - time.monotonic()) > 0:
                if (now := sum(map(is_met, listings.get(timeout=left)))) > met:
                    met, at = now, time.monotonic()
        return met, at

    def _start(self, entered: ExitStack, program: Path) -> None:
        """Start what plays the nodes' parts, in the network of the only real one."""
        account = {"name": "kwok", "namespace": "kube-system"}
        subject = {"kind": "ServiceAccount", **account}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        self.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
            {
                **_ROLE_BINDING,
                "metadata": {"name": "kwok"},
                "roleRef": {**role, "name": "cluster-admin"},
                "subjects": [subject],
            },
            {
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
                "kind": "FlowSchema",
                "metadata": {"name": "kwok"},
                "spec": {
                    "priorityLevelConfiguration": {"name": "exempt"},
                    "matchingPrecedence": 500,
                    "rules": [
                        {
                            "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                            "resourceRules": [
                                {**everything, "namespaces": ["*"], "clusterScope": True}
                            ],
                        }
                    ],
                },
            },
        )
        path = "/api/v1/namespaces/kube-system/serviceaccounts/kwok/token"
        body = {"spec": {"expirationSeconds": 24 * 3600}}
        token = self.ask(Request("POST", path, body=body))["status"]["token"]
        (cluster,) = yaml.safe_load(self.kubeconfig)["clusters"]
        file = self.directory / "kwok.kubeconfig"
        file.touch(0o600)
        file.write_text(kube.kubeconfig("kwok", cluster["cluster"], {"token": token}))
        enter, address = network.enter(self.layout), str(self.layout.node_address)
        self._kwok = self._run(
            entered,
            *(*enter, str(program), f"--kubeconfig={file}", f"--config={_HERE / 'stages.yaml'}"),
            *("--manage-all-nodes=false", "--manage-nodes-with-label-selector=type=kwok"),
            *("--cidr=10.128.0.0/16", f"--node-ip={address}", f"--node-port={_LOG_PORT}"),
            f"--server-address=127.0.0.1:{_OWN_PORT}",
            f"--node-lease-duration-seconds={_LEASE_SECONDS}",
            log="kwok",
        )
        pair = map(str, (self.layout.certificate("kubelet"), self.layout.key("kubelet")))
        module = (sys.executable, "-m", "tests.bench.container_logs", address, str(_LOG_PORT))
        self._logs = self._run(entered, *enter, *module, *pair, str(self.ended), log="logs")

    def _run(self, entered: ExitStack, *command: str, log: str) -> "subprocess.Popen[bytes]":
        with (self.directory / f"{log}.log").open("wb") as output:
            started = subprocess.Popen(command, cwd=CHECKOUT, stdout=output, stderr=output)
        entered.callback(started.wait)
        entered.callback(started.kill)
        return started

    def _create_nodes(self) -> None:
        room = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: "8"}
        nodes = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"simulated-{number}", "labels": {"type": "kwok"}},
                "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]},
                "status": {"allocatable": room, "capacity": room},
            }
            for number in range(self.nodes)
        ]
        _at_once(self.ask, [Request("POST", "/api/v1/nodes", body=each) for each in nodes])

    def _install(self) -> None:
        source = toolchain.path("training-operator-manifests")
        wait = image_reference("tcp-wait")
        others = [*contents(JOBS, own=True, known={}), *foundations(source, JOBS, wait)]
        self.apply(restricted_namespace(JOBS), *others)

    def _await_operator(self) -> None:
        ready = {"kubeconfig": self.kubeconfig, "jobNamespace": JOBS, "deployment": NAME}
        OperatorReadyHandler(stop_all).create(ready, Silence())


def kwok() -> Path:
    """Return kwok, which is built first if this version is not in the cache."""
    program = cache_dir() / "bench" / f"kwok-{KWOK.digest}"
    if not program.exists():
        tool = Tool("kwok", module=KWOK)
        with Steps(Console(stderr=True)) as steps:
            built = golang.build(KWOK, [tool], steps)["kwok"]
        if isinstance(built, Problem):
            raise RuntimeError(str(built))
        program.parent.mkdir(exist_ok=True)
        Path(built.path).rename(program)
    return program


def usage(pid: int) -> Used:
    """Return what a process has used; raises `OSError` if it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    text = Path(f"/proc/{pid}/status").read_text()
    status = dict(re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE))
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return Used(cpu, int(status.get("VmHWM", 0)) / 1024, int(status["Threads"]))


def _program(pid: int) -> str:
    name = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    return "operator" if Path(name).name == "manager" else Path(name).name


def _at_once(call: Callable[[T], object], items: Sequence[T]) -> None:
    """Call a function with each item, a few at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(call, each) for each in items]:
            done.result()


def _all_run(job: Manifest) -> bool:
    roles = (job.get("status") or {}).get("replicaStatuses") or {}
    counts = (int(each.get(kind, 0)) for each in roles.values() for kind in ("active", "succeeded"))
    return sum(counts) >= Topology.of_object(job).replicas
