"""`make stacks`, `make shell` and `make debug JOB=…`: inspect the pods of a run."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from core import process
from core.paths import project_dir
from jobs.model.names import CONTAINER, PACKAGES, WORK
from jobs.model.pytorchjob import JOB_NAME_LABEL, Topology, is_replica
from jobs.observe.replica import Replica
from scripts.cli.config import own, require_job, settings_of
from scripts.cli.kubeconfig import kubectl
from scripts.cli.runs.logs import names_of
from scripts.cli.state import read_state
from scripts.cli.terminal import CommandError
from scripts.cli.ui import forward

KEY = "slipway:exec"
_SHELL = f"""
if [ -e {PACKAGES}/slipway_trainer/agent/inside.py ]; then
    exec python3 -m slipway_trainer.inside shell "$0"
fi
cd "$(readlink /proc/1/cwd)"; exec "$(command -v bash || echo sh)"
"""
"""Opens a shell in any image. If Slipway's launcher is missing, process 1 is the job's program."""
_AT_ONCE, _DEBUGPY_PORT = 8, 5678
_NO_LAUNCHER = (
    "The job's image may lack Slipway's launcher: base it on the trainer image "
    "(docs/own-job.md#build), or add py-spy to it and run `py-spy dump --pid 1` in `make shell`."
)


@dataclass(frozen=True)
class _Pods:
    """The selected replicas: their display names, and the pods whose programs are running."""

    names: Mapping[int, str]
    running: Mapping[int, str]
    kubectl: Sequence[str]

    def line(self, replica: int, *words: str, options: Sequence[str] = ()) -> list[str]:
        """Return the kubectl command that runs `words` in a replica's container."""
        where = (self.running[replica], f"--container={CONTAINER}", "--")
        return [*self.kubectl, "exec", *options, *where, *words]

    def stack(self, replica: int) -> tuple[bool, str]:
        """Return whether a replica's call stack could be read, and the stack or the error."""
        if replica not in self.running:
            return False, "The rank is not running."
        words = ("python3", "-m", "slipway_trainer.inside", "stacks")
        try:
            return True, process.run(*self.line(replica, *words)).rstrip()
        except process.CommandFailed as error:
            return False, f"The call stack can't be read: {error}\n{_NO_LAUNCHER}"


def stacks(stack: str, job: str, rank: int | None) -> int:
    """Print the call stacks of a job's ranks, or of one rank; return 1 if one can't be read."""
    with _pods(stack, job, rank) as pods, ThreadPoolExecutor(_AT_ONCE) as pool:
        shown = [*pool.map(pods.stack, pods.names)]
    for (replica, name), (_, text) in zip(pods.names.items(), shown, strict=True):
        pod = f" ({pods.running[replica]})" if replica in pods.running else ""
        print(f"--- {name}{pod}\n{text}", flush=True)
    return 0 if all(is_shown for is_shown, _ in shown) else 1


def shell(stack: str, job: str, rank: int | None) -> int:
    """Open a shell in a rank's container, by default rank 0's; return the shell's exit status."""
    rank = 0 if rank is None else rank
    with _pods(stack, job, rank) as pods:
        (replica,) = pods.names
        options = ["--stdin", *(["--tty"] if sys.stdin.isatty() else [])]
        line = pods.line(replica, "sh", "-c", _SHELL, str(rank), options=options)
        return subprocess.run(line, stdin=sys.stdin, check=False).returncode


def debug(stack: str, job: str, port: int) -> int:
    """Forward a port to the rank that is waiting for a debugger, and print how to attach one."""
    jobs = read_state(stack).jobs
    require_job(stack, job, jobs)
    declared = jobs[job].declared
    if (rank := declared.get("debug")) is None:
        raise CommandError(f"Job {job} does not set `debug`; to debug rank 0, set `debug: 0`.")
    script = (project_dir() / declared.get("script", "")).resolve()
    folder = script.parent if script.is_file() else script
    entry = {
        "name": f"{job}, rank {rank}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "localhost", "port": port},
        "pathMappings": [{"localRoot": str(folder), "remoteRoot": f"{WORK}/src/{job}"}],
    }
    text = (
        f"Rank {rank} of {job} is at localhost:{port} (Ctrl-C disconnects). To attach VS Code, add "
        f"this to `configurations` in .vscode/launch.json:\n{json.dumps(entry, indent=2)}"
    )
    with _pods(stack, job, rank) as pods:
        (pod,) = pods.running.values()
        again = f"make debug JOB={job} STACK={stack}"
        forward(pods.kubectl, f"pod/{pod}", (port, _DEBUGPY_PORT), text, again)
    return 0


@contextmanager
def _pods(stack: str, job: str, rank: int | None) -> Iterator[_Pods]:
    """Yield the pods that run a job's ranks, or the pod of one rank."""
    if settings_of(stack).get(KEY) not in (True, "true"):  # Pulumi's CLI writes it as a string
        raise CommandError(
            f"This command runs programs in the jobs' pods, but {stack} does not allow that. To "
            f"allow it, add this line to `config` in {own(stack).name}; no job is retrained:\n"
            f"  {KEY}: true\nFor the consequences, see docs/security.md#commands-in-pods"
        )
    state = read_state(stack, secrets=True)
    require_job(stack, job, state.jobs)
    if state.kubeconfig is None:
        raise CommandError(f"Stack {stack} has no cluster; `make up STACK={stack}` creates one.")
    topology = Topology.of_declared(state.jobs[job].declared)
    names = names_of(job, topology, rank)
    with kubectl(state.kubeconfig) as command:
        line = [*command, f"--namespace={state.jobs[job].namespace}"]
        selector = f"--selector={JOB_NAME_LABEL}={job}"
        listed = json.loads(process.run(*line, "get", "pods", selector, "--output=json"))["items"]
        replicas = (Replica(each, topology) for each in listed if is_replica(each))
        pods = {each.number: each.name for each in replicas if each.running}
        running = {each: pods[each] for each in names if each in pods}
        if rank is not None and not running:
            raise CommandError(
                f"Rank {rank} of {job} is not running; `make results JOB={job} "
                f"STACK={stack}` shows how the job ended."
            )
        yield _Pods(names, running, line)
