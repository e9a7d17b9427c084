"""The trainer's image, opened, to run ranks in as a node would; without a cluster."""

import fcntl
import json
import random
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from core import toolchain
from core.context import Silence
from core.paths import cache_dir
from images.build import pip
from images.build.engines import Engine, with_storage
from images.build.releases import RELEASES
from images.build.runner import ATTEMPTS, BUSY
from images.build.trainer import TRAINER_CIFAR, ImageSpec

_LIMIT_SECONDS = 630
_PODS = (
    "sh",
    "-c",
    """
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
    touch /out/$rank.termination
    RANK=$rank TERMINATION_LOG=/out/$rank.termination \
        timeout 300 "$@" > /out/$rank.out 2> /out/$rank.err &
    pids="$pids $!"
done
for pid in $pids; do wait $pid; echo $?; done
""",
    "sh",
)
_RUNNERS: Mapping[Path, str] = {
    Path(__file__).with_name(name): f"/{name}" for name in ("forks.py", "ranks.py")
}
"""What starts ranks inside the image, and where it is there."""


@dataclass(frozen=True)
class Ended:
    """How one process ended and what it left behind; times are in seconds since the start.

    Of one that had to be killed at the end the code is None.
    """

    code: int | None
    seconds: float
    signalled: float | None
    events: list[dict[str, Any]]
    errors: str
    message: dict[str, Any]

    @classmethod
    def read(
        cls,
        directory: Path,
        name: str,
        code: int | None,
        seconds: float = 0.0,
        signalled: float | None = None,
    ) -> "Ended":
        """Read what the process has left: NAME.out, NAME.err and NAME.termination."""
        out, errors, message = (
            (directory / f"{name}.{kind}").read_text() for kind in ("out", "err", "termination")
        )
        events = [json.loads(line) for line in out.splitlines() if line.startswith('{"')]
        return cls(code, seconds, signalled, events, errors, json.loads(message or "{}"))

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [each for each in self.events if each.get("event") == event]


@dataclass(frozen=True)
class Rank:
    """One rank to start; `signal` is sent to it `delay` seconds after so many steps."""

    args: Sequence[str] = ()
    program: Sequence[str] = ("-m", "slipway_trainer.mnist")
    signal: int | None = None
    delay: float = 0
    steps: int = 1


def free_port(count: int = 1) -> int:
    """Return the first of so many free ports, from which no connection is made by itself.

    The image's programs share the machine's network.
    """
    while True:
        first = random.randrange(12_000, 30_000)  # noqa: S311 - any will do
        with suppress(OSError), ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


@dataclass(frozen=True)
class Opened:
    """A container of the image, on a storage of the test's own."""

    engine: Engine
    reference: str

    @cached_property
    def _container(self) -> str:
        return self.buildah("from", self.reference).strip()

    def run(
        self,
        *command: str,
        mounts: Mapping[Path, str] | None = None,
        limit: float = _LIMIT_SECONDS,
    ) -> str:
        """Run a command as the image's user, at most `limit` seconds; return what it printed."""
        # By way of a file: buildah may lose what a process printed just before it ended.
        with TemporaryDirectory() as printed:
            Path(printed).chmod(0o777)
            places = {**(mounts or {}), Path(printed): "/printed"}
            volumes = [f"--volume={path}:{inside}" for path, inside in places.items()]
            options = ("--isolation=chroot", *volumes, self._container, "--")
            to_file = ("sh", "-c", '"$@" > /printed/out || { cat /printed/out; false; }', "sh")
            self.buildah("run", *options, *to_file, *command, limit=limit)
            return Path(printed, "out").read_text()

    def train(
        self,
        directory: Path,
        *ranks: Rank,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        more: Mapping[Path, str] | None = None,
    ) -> list[Ended]:
        """Run ranks; return how each ended, but for those that were stopped with SIGSTOP.

        All get `args`, before their own, `env` besides a pod's variables, and `directory` as /out,
        which takes what they leave behind; `more` is what else is mounted.
        """
        port = str(free_port())
        world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(len(ranks)),
                 "LOCAL_WORLD_SIZE": str(len(ranks))}  # fmt: skip
        plan = {
            "programs": [[*rank.program, *args, *rank.args] for rank in ranks],
            "env": [{**world, "RANK": str(number)} for number in range(len(ranks))],
            "blows": [
                {"worker": number, "signal": rank.signal, "step": rank.steps - 1,
                 "delay": rank.delay, "replace": None}
                for number, rank in enumerate(ranks) if rank.signal is not None
            ],
        }  # fmt: skip
        ended = self.start(directory, plan, env or {}, more or {})
        for name, each in ended.items():
            is_stopped = ranks[int(name[0])].signal == signal.SIGSTOP
            assert is_stopped or each.code is not None, f"{name} did not end: {each.errors}"
        return [each for each in ended.values() if each.code is not None]

    def start(
        self,
        directory: Path,
        plan: Mapping[str, Any],
        env: Mapping[str, str],
        more: Mapping[Path, str],
    ) -> dict[str, Ended]:
        """Carry out a plan of ranks.py; return the processes by name."""
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
        (directory / "plan.json").write_text(json.dumps(plan))
        mounts = {directory: "/out", **_RUNNERS, **more}
        variables = [f"{name}={value}" for name, value in env.items()]
        self.run("env", *variables, "python3", "/ranks.py", "/out/plan.json", mounts=mounts)
        ends = json.loads((directory / "ends.json").read_text())
        nothing = {"code": None, "seconds": 0.0, "signalled": None}
        names = sorted(path.stem for path in directory.glob("*.out"))
        return {name: Ended.read(directory, name, **ends.get(name, nothing)) for name in names}

    def pods(
        self,
        directory: Path,
        *command: str,
        ranks: int = 2,
        env: Mapping[str, object] | None = None,
        more: Mapping[Path, str] | None = None,
    ) -> list[Ended]:
        """Run a command as the only process of each of so many pods; the rest is as in `train`."""
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
        world = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        variables = {**world, "OMP_NUM_THREADS": 1, **(env or {})}
        words = ("env", *(f"{name}={value}" for name, value in variables.items()))
        mounts = {directory: "/out", **(more or {})}
        codes = self.run(*words, *_PODS, *command, mounts=mounts).split()
        return [Ended.read(directory, str(rank), int(code)) for rank, code in enumerate(codes)]

    def buildah(self, *arguments: str, limit: float = _LIMIT_SECONDS) -> str:
        """Run buildah on this storage and return what it printed."""
        command = (*self.engine.call, *arguments)
        for _ in range(ATTEMPTS):
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
            if done.returncode == 0 or BUSY not in done.stderr:
                break
        said = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        assert done.returncode == 0, f"`{' '.join(command)}` failed with {done.returncode}: {said}"
        return done.stdout


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The image with both data sets; built unless it was."""
    with opened(TRAINER_CIFAR, tmp_path_factory.mktemp("storage")) as found:
        yield found


@contextmanager
def opened(spec: ImageSpec, storage: Path) -> Iterator[Opened]:
    """Build an image, unless it was, and open it on a storage in that directory."""
    archive, buildah = spec.build(Silence()), str(toolchain.path("buildah"))
    engine = with_storage("buildah", buildah, storage / "images", storage / "run")
    found = Opened(engine, spec.reference)
    found.buildah("pull", "--quiet", f"oci-archive:{archive}")
    yield found
    found.buildah("rm", "--all")
    found.buildah("rmi", "--all")


def installed(lock: Path) -> Path:
    """Return a directory with the packages of a lock file, for the image's Python."""
    python = RELEASES[str(TRAINER_CIFAR.torch)].python
    digest = sha256(python.encode() + lock.read_bytes()).hexdigest()
    directory = cache_dir() / f"{lock.stem}-{digest[:12]}"
    with directory.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (directory / "done").exists():
            subprocess.run(pip._command(lock, directory, python), check=True, timeout=600)
            (directory / "done").touch()
    return directory
