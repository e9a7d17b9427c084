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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import yaml
from rich.console import Console

from clusters.cluster import JOBS
from clusters.embedded import health, isolation, lifecycle, network, pki
from clusters.embedded.host import image_reference
from clusters.embedded.layout import Layout
from clusters.operator import NAME
from clusters.operator.operator_ready import OperatorReadyHandler
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
_LOG_PORT = 10347
_LIMIT = (5.0, 60.0)
_AT_ONCE = 8
_TICKS = 100.0
"""The kernel's USER_HZ: proc(5)."""
_PARTS = {"manager": "operator", "kube-apiserver": "server", "etcd": "server"}
"""The parts whose CPU is counted, by their programs."""
_REQUESTS = re.compile(
    r'^apiserver_flowcontrol_dispatched_requests_total\{.*flow_schema="([^"]*)".*\} (\S+)$',
    re.MULTILINE,
)
_GRANTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: kwok, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kwok}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: kwok, namespace: kube-system}]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: kwok}
spec:
  priorityLevelConfiguration: {name: exempt}
  matchingPrecedence: 500
  rules:
  - subjects:
    - {kind: ServiceAccount, serviceAccount: {name: kwok, namespace: kube-system}}
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}
"""
"""The account of kwok, whose requests take no part in what is measured."""
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
        named = ("controller-threads", "kube-api-qps", "kube-api-burst")
        return [f"--{name}={value}" for name, value in zip(named, self, strict=True)]


class Look(NamedTuple):
    """What has been counted up to a moment: CPU seconds by part, requests by flow schema."""

    at: float
    cpu: "Counter[str]"
    flows: "Counter[str]"

    def since(self, before: "Look") -> "Look":
        return Look(self.at - before.at, self.cpu - before.cpu, self.flows - before.flows)


@dataclass(frozen=True)
class Batch:
    """Jobs that were submitted at once: how many run, and after how many seconds they did."""

    running: int
    seconds: float
    cost: Look


@dataclass
class Simulated:
    """The cluster while its `with` block runs; nothing of it is left afterwards."""

    directory: Path
    nodes: int

    def __post_init__(self) -> None:
        self.layout = Layout(self.directory / "cluster")
        self.ended = self.directory / "ended"
        self.settings: Settings | None = None
        self._resources = ExitStack()

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

    def ask(self, request: Request) -> Any:
        return kube.ask(self.api, request, limit=_LIMIT)

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
        ready = {"kubeconfig": self.kubeconfig, "jobNamespace": JOBS, "deployment": NAME}
        OperatorReadyHandler(stop_all).create(ready, Silence())
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
        return Batch(running, until - before.at, self.look().since(before))

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
        cpu, flows = Counter[str](), Counter[str]()
        for flow, value in _REQUESTS.findall(metrics):
            flows[flow] += int(float(value))
        for pid in isolation.processes(self.layout):
            with suppress(OSError):
                program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                if part := _PARTS.get(Path(program).name):
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    used = (int(fields[11]) + int(fields[12])) / _TICKS
                    cpu[part] += used  # type: ignore[assignment]  # Counter sums any numbers
        return Look(time.monotonic(), cpu, flows)

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
        self.apply(*yaml.safe_load_all(_GRANTS))
        path = "/api/v1/namespaces/kube-system/serviceaccounts/kwok/token"
        body = {"spec": {"expirationSeconds": 24 * 3600}}
        token = self.ask(Request("POST", path, body=body))["status"]["token"]
        (cluster,) = yaml.safe_load(self.kubeconfig)["clusters"]
        file = self.directory / "kwok.kubeconfig"
        file.touch(0o600)
        file.write_text(kube.kubeconfig("kwok", cluster["cluster"], {"token": token}))
        enter, address = network.enter(self.layout), str(self.layout.node_address)
        self._run(
            entered,
            *(*enter, str(program), f"--kubeconfig={file}", f"--config={_HERE / 'stages.yaml'}"),
            *("--manage-all-nodes=false", "--manage-nodes-with-label-selector=type=kwok"),
            *("--cidr=10.128.0.0/16", f"--node-ip={address}", f"--node-port={_LOG_PORT}"),
            *("--server-address=127.0.0.1:10348", "--node-lease-duration-seconds=160"),
            log="kwok",
        )
        pair = map(str, (self.layout.certificate("kubelet"), self.layout.key("kubelet")))
        module = (sys.executable, "-m", "tests.bench.container_logs", address, str(_LOG_PORT))
        self._run(entered, *enter, *module, *pair, str(self.ended), log="logs")

    def _run(self, entered: ExitStack, *command: str, log: str) -> None:
        with (self.directory / f"{log}.log").open("wb") as output:
            started = subprocess.Popen(command, cwd=CHECKOUT, stdout=output, stderr=output)
        entered.callback(started.wait)
        entered.callback(started.kill)

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


def _at_once(call: Callable[[T], object], items: Sequence[T]) -> None:
    """Call a function with each item, a few at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(call, each) for each in items]:
            done.result()


def _all_run(job: Manifest) -> bool:
    roles = (job.get("status") or {}).get("replicaStatuses") or {}
    counts = (int(each.get(kind, 0)) for each in roles.values() for kind in ("active", "succeeded"))
    return sum(counts) >= Topology.of_object(job).replicas
