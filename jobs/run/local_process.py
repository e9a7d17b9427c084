"""A job's replica as a local process that looks like a pod, with a folder as its root.

It runs the pod's command from the manifest, with the variables that the training operator sets.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from core import manifests
from core.files import write
from core.manifests import KEPT_DIRECTORY
from core.paths import CHECKOUT
from core.problem import Problem, located
from jobs.model.job import TrainingJob
from jobs.model.names import CONTAINER, GPU, OUTPUT_DIR, RUN_LABEL, SCRIPT, WORK
from jobs.model.parts import SecretKey
from jobs.model.pytorchjob import INDEX_LABEL, TYPE_LABEL, Topology, host, templates
from slipway.checkpoint_store import sha256_of
from slipway.termination import read
from slipway_trainer.agent.artifacts import sort

LOOPBACK = "127.0.0.1"
_TRAINER = CHECKOUT / "images/trainer"
_IMAGES: Mapping[str, str] = manifests.read(Path(__file__).with_suffix(".yaml"))
_OF_A_RANK = re.compile("RANK|LOCAL_.*|WORLD_SIZE|MASTER_.*|(PET|SLIPWAY|TORCHELASTIC)_.*")
_LEFT_OUT = ("KEPT", "OUTPUTS", "OUTPUTS_EVERY", "HOLD", "DEBUG", "DRILL")
_OF_A_CLUSTER = {f"SLIPWAY_{each}" for each in _LEFT_OUT}
_OF_A_POD = "|".join((OUTPUT_DIR, f"{WORK}/src", SCRIPT, KEPT_DIRECTORY))
_PLACES = re.compile(rf"""(?<![^\s=:,;&|<>(\[{{])(["']?)({_OF_A_POD})(?![\w.-])""")
_REFERENCE = re.compile(r"\$(?:(\$)|\((\w+)\))")


def problems(job: TrainingJob, key: str) -> Iterator[Problem]:
    """Yield the reasons why a job, declared at `key` in the configuration, can't run locally."""
    for name in ("elastic", "module", "build", "image", "volumes", "inputs", "data"):
        if getattr(job, name):
            place = key if name == "module" else f"{key}.{name}"
            yield Problem(place, "needs a cluster: run it with `make up`")
    for name, value in job.env.items():
        if isinstance(value, SecretKey) and name not in os.environ:
            text = f"comes from a Secret, but no cluster is used: set {name} in your environment"
            yield Problem(located(key, ("env", name)), text)


@dataclass
class LocalProcess:
    """A replica that runs as a local process; `name` is the name that its pod would have."""

    number: int
    name: str
    root: Path
    command: Sequence[str]
    variables: Mapping[str, str]

    def start(self, script: Path, checkpoints: Path) -> subprocess.Popen[bytes]:
        """Start the process with the files in `script`, and return it; may raise `OSError`."""
        work = Path(f"{self.root}{WORK}")
        work.mkdir(parents=True)
        for inside, target in ((SCRIPT, script), (KEPT_DIRECTORY, checkpoints)):
            Path(f"{self.root}{inside}").parent.mkdir(parents=True, exist_ok=True)
            Path(f"{self.root}{inside}").symlink_to(target)
        (self.root / "termination-log").touch()
        (self.root / "bin").mkdir()
        program = f'#!/bin/sh\nexec {shlex.quote(self.command[0])} "$@"\n'
        for name in ("python", "python3"):  # a link to it would leave a virtual environment
            write(self.root / "bin" / name, program, mode=0o755)
        self.process = subprocess.Popen(
            self.command,
            cwd=work,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C must reach only this process, which stops the others
        )
        self._started, self._ended = now(), dict[str, Any]()
        return self.process

    @property
    def code(self) -> int | None:
        """The exit code as in a shell, or None while the process is running."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def pod(self) -> dict[str, Any]:
        """The process as a pod, as the API server would return it."""
        code, identity = self.code, {"containerID": f"local://{self.name}"}
        if code is not None and not self._ended:
            times = {"startedAt": self._started, "finishedAt": now()}
            self._ended = {"exitCode": code, "message": self._message(), **times, **identity}
        running = {"running": {"startedAt": self._started}}
        state = running if code is None else {"terminated": self._ended}
        _, role, index = self.name.rsplit("-", 2)
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        return {
            "metadata": {
                "name": self.name,
                "uid": self.name,
                "creationTimestamp": self._started,
                "ownerReferences": [{"uid": self.variables["SLIPWAY_RUN_ID"]}],
                "labels": {TYPE_LABEL: role, INDEX_LABEL: index},
            },
            "spec": {"restartPolicy": "Never"},
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": CONTAINER, "state": state, **identity}],
            },
        }

    def _message(self) -> str:
        """Return the process's termination message; rank 0's also lists the files that it wrote."""
        message = read(self.root / "termination-log")
        paths = sort(Path(f"{self.root}{OUTPUT_DIR}"))[0] if self.number == 0 else {}
        files = {
            name: {"url": path.as_uri(), "sha256": sha256_of(path), "bytes": path.stat().st_size}
            for name, path in paths.items()
        }
        if files:
            message = {"rank": 0, **message, "artifacts": files}
        return json.dumps(message) if message else ""


def processes(
    job: TrainingJob, document: Mapping[str, Any], folder: Path, python: str, port: int
) -> Iterator[LocalProcess]:
    """Yield the replicas in a job's manifest; `python` runs them, and rank 0 listens on `port`."""
    topology, pods = Topology.of_object(document), templates(document)
    places = [("master", 0), *(("worker", index) for index in range(topology.replicas - 1))]
    names = [host(job.name, *each) for each in places]
    hosts = re.compile("|".join(sorted(map(re.escape, names), key=len, reverse=True)))
    for number, name in enumerate(names):
        [container] = pods[places[number][0]]["spec"]["containers"]
        root = folder / name
        placed = partial(_PLACES.sub, lambda match, root=root: f"{match[1]}{root}{match[2]}")
        declared = _declared(job, container["env"], document["metadata"]["labels"][RUN_LABEL])
        variables = {
            **_inherited(root, python, {each: placed(text) for each, text in declared.items()}),
            **_operators(topology, number, port),
            "HOSTNAME": name,
            "SLIPWAY_ROOT": str(root),
            "TERMINATION_LOG": str(root / "termination-log"),
        }
        if GPU in container["resources"]["limits"]:
            variables.pop("ACCELERATE_USE_CPU")
        # The first word is python3, which runs the launcher's module.
        words = [*container["command"], *container.get("args", ())][1:]
        filled = (hosts.sub(LOOPBACK, _filled(each, variables)) for each in words)
        yield LocalProcess(number, name, root, [python, *map(placed, filled)], variables)


def _inherited(root: Path, python: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment, the image's variables that suit any Python, and `own`."""
    users = {name: text for name, text in os.environ.items() if not _OF_A_RANK.fullmatch(name)}
    variables = {**_IMAGES, **users, **own}
    programs, packages = (root / "bin", Path(python).parent), (_TRAINER / "python", _TRAINER)
    for name, first in (("PATH", programs), ("PYTHONPATH", packages)):
        variables[name] = os.pathsep.join(filter(None, [*map(str, first), variables.get(name)]))
    return variables


def _declared(job: TrainingJob, env: Sequence[Mapping[str, Any]], run_id: str) -> dict[str, str]:
    """Return a container's environment variables, without HOME and those that need a cluster."""
    variables: dict[str, str] = {}
    for each in env:
        name, source = each["name"], each.get("valueFrom")
        if source is None:
            variables[name] = _filled(each["value"], variables)
        else:
            variables[name] = os.environ[name] if "secretKeyRef" in source else run_id
    left_out = _OF_A_CLUSTER | ({"HOME"} - job.env.keys())
    return {name: value for name, value in variables.items() if name not in left_out}


def _operators(topology: Topology, number: int, port: int) -> dict[str, str]:
    """Return the training operator's variables, and those that bind ranks to loopback.

    https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/pytorch/envvar.go
    """
    master, rank = {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(port)}, str(number)
    sizes = {"NNODES": topology.replicas, "NPROC_PER_NODE": topology.processes}
    pet = {**master, "NODE_RANK": rank, **sizes}
    return {
        **master,
        **{f"PET_{name}": str(value) for name, value in pet.items()},
        "PYTHONUNBUFFERED": "1",
        "RANK": rank,
        "WORLD_SIZE": str(topology.world_size),
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo"),
    }


def _filled(word: str, variables: Mapping[str, str]) -> str:
    """Return a word with $(NAME) expanded as Kubernetes does: unknown names stay, $$ becomes $."""
    return _REFERENCE.sub(lambda match: match[1] or variables.get(match[2], match[0]), word)


def now() -> str:
    """Return the current time in Kubernetes format, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
