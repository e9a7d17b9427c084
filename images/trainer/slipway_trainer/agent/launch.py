"""Start a job's program, in one process or several, and handle its outputs and results.

    python3 -m slipway_trainer.launch -- train.py --epochs 1
    python3 -m slipway_trainer.launch --processes 2 -- -m slipway_trainer.mnist --epochs 1
    python3 -m slipway_trainer.launch --command -- accelerate launch train.py

It creates SLIPWAY_OUTPUT_DIR, starts the program in the directory that `Place` prepares, and adds
the numbers in the output directory's metrics.json to the termination message. It copies the output
directory to the URL in SLIPWAY_OUTPUTS, even after a failure, or to the one in SLIPWAY_KEPT, where
an error does not fail the run. If SLIPWAY_OUTPUTS_EVERY is set, it also copies at this interval, in
seconds, while the program runs. Checkpoints are in SLIPWAY_CHECKPOINT_DIR, synchronized with
SLIPWAY_CHECKPOINT_URL if that is set; they are removed once the program exits with 0, unless it did
so after SIGTERM, which is a failure: it may have stopped early.

Several processes run under torchrun, unless a command starts them; their messages are merged. If a
single process runs one of the image's own programs, and nothing is to be done afterwards, it
replaces this process. So this module imports torch and fsspec only when they are needed.
"""

import argparse
import errno
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from slipway import termination
from slipway.drill import DRILL
from slipway.events import Events, given_rank, own_rank
from slipway.uncaught import PEER
from slipway_trainer.agent import artifacts
from slipway_trainer.agent.child import DEBUG, received, wait_for
from slipway_trainer.agent.mirror import Mirror
from slipway_trainer.agent.place import WORK, Place
from slipway_trainer.agent.printed import METRICS
from slipway_trainer.agent.processes import (
    besides,
    from_log,
    merged,
    recorded,
    with_numbers,
    without_a_trace,
)
from slipway_trainer.agent.tracking.process import Tracking
from slipway_trainer.training import report

_LOOK_SECONDS = 1.0
"""Interval, in seconds, at which new checkpoints are copied."""
_TELL_SECONDS = 10.0
_NOT_FOUND, _KILLED, _HOLD = 127, 128 + signal.SIGKILL, "SLIPWAY_HOLD"


def main(arguments: Sequence[str]) -> int:
    """Run the program in the arguments after `--`, and return the container's exit code."""
    processes, program = _parse(arguments)
    if processes == 1:
        _set_torchruns_variables()
    directory = Path(os.environ.get("SLIPWAY_OUTPUT_DIR", "outputs")).absolute()
    url = os.environ.get("SLIPWAY_OUTPUTS", os.environ.get("SLIPWAY_KEPT"))
    if url is not None or "SLIPWAY_OUTPUT_DIR" in os.environ:
        directory.mkdir(parents=True, exist_ok=True)
    has_more = url is not None or "SLIPWAY_CHECKPOINT_DIR" in os.environ
    place = Place(directory)
    program = place.enter(program)
    tracking = Tracking.begun()
    has_more |= tracking is not None or bool({METRICS, _HOLD, DEBUG, DRILL} & os.environ.keys())
    if processes == 1 and not has_more and program[:2] == [sys.executable, "-m"]:
        sys.stdout.flush()
        os.execv(sys.executable, program)  # noqa: S606 - that is its purpose
    sent = Mirror(directory, "" if url is None else _destination(url, 1, own_rank()), place.gather)
    every = None if url is None else os.environ.get("SLIPWAY_OUTPUTS_EVERY")
    with nullcontext() if every is None else sent.following(float(every)):
        code, message = _resume(processes, program)
    place.gather()
    left = place.left()
    if code == 0:
        message = with_numbers(message, directory)
        if not (message or left):
            message = without_a_trace(directory)
    if tracking is not None:
        message = tracking.end(code, message)
    if url is not None:
        code, message = _copy(directory, url, code, message, sent)
    # Only now, so that the retry of a pod that was lost while it copied its files can resume.
    _remove_checkpoints(code, message)
    if left and message.get("rank", own_rank()) == 0:
        Events(0).warning(place.warning(left))
        message = {"rank": 0, **message, "left_behind": left}
    if message:
        termination.leave(message)
    _hold(code, message)
    return code


def _parse(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Return the number of processes, and the command for each, or with --command for all."""
    cut = [*arguments, "--"].index("--")
    own, program = arguments[:cut], [*arguments[cut + 1 :]]
    usage = "%(prog)s [--processes N] [--command] -- {SCRIPT | -m MODULE | COMMAND} [ARGUMENT …]"
    parser = argparse.ArgumentParser(prog="slipway_trainer.launch", usage=usage)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--command", action="store_true")
    options = parser.parse_args(own)
    processes: int = options.processes
    if processes < 1:
        parser.error(f"--processes {processes} is not allowed; it must be 1 or more")
    if not program or program == ["-m"]:
        parser.error("nothing to run: pass a script, or -m and a module, after `--`")
    return processes, program if options.command else [sys.executable, *program]


def _resume(processes: int, program: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Run the program, resuming from its job's checkpoints if any; returns the same as `_run`."""
    if (directory := os.environ.get("SLIPWAY_CHECKPOINT_DIR")) is None:
        return _run(processes, program)
    url = os.environ.get("SLIPWAY_CHECKPOINT_URL")
    parent, own = _checkpoint_folder(directory)
    saved = None if url is None else Mirror(Path(directory), url)
    try:
        if own_rank() == 0:
            # Remove checkpoints of earlier versions of the job, which are in sibling folders.
            artifacts.remove_folders(
                parent, lambda name: name != own and re.fullmatch("[0-9a-f]{16}", name) is not None
            )
        if saved is not None:
            saved.fetch()
    except Exception as error:  # noqa: BLE001 - each store raises its own errors
        text = _failed(f"the checkpoints in {parent} can't be read", error)
        return report.EXIT_FAILED, {"rank": own_rank(), "error": text}
    with nullcontext() if saved is None else saved.following(_LOOK_SECONDS):
        code, message = _run(processes, program)
    if code != 0 and saved is not None:
        saved.copy(settled_seconds=0)
    return code, message


def _remove_checkpoints(code: int, message: dict[str, Any]) -> None:
    """Remove the job's checkpoints if rank 0 succeeded: a completed run must not be resumed."""
    directory = os.environ.get("SLIPWAY_CHECKPOINT_DIR")
    if directory is None or code != 0 or message.get("rank", own_rank()) != 0:
        return
    parent, own = _checkpoint_folder(directory)
    try:
        artifacts.remove_folders(parent, lambda name: name == own)
    except Exception as error:  # noqa: BLE001 - each store raises its own errors
        _failed(f"the checkpoints in {parent} could not be removed", error)


def _checkpoint_folder(directory: str) -> tuple[str, str]:
    """Return the URL of the folder with all checkpoints of the job, and this program's folder."""
    parent, _, own = os.environ.get("SLIPWAY_CHECKPOINT_URL", f"file://{directory}").rpartition("/")
    return parent, own


def _failed(what: str, error: Exception) -> str:
    """Emit a warning event with a failure and its reason, and return the warning."""
    text = f"{what}: {artifacts.described(error)}"
    Events(own_rank()).warning(text)
    return text


def _set_torchruns_variables() -> None:
    # https://docs.pytorch.org/docs/2.14/elastic/run.html#environment-variables
    if "TORCHELASTIC_RUN_ID" in os.environ:
        ranks = dict.fromkeys(("GROUP_RANK", "ROLE_RANK", "NODE_RANK"), os.environ["RANK"])
        sizes = dict.fromkeys(("GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"), os.environ["WORLD_SIZE"])
        none = dict.fromkeys(("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"), "0")
        os.environ.update({**ranks, **sizes, **none, **os.environ})


def _run(processes: int, program: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Run the program until it exits; return its exit code and its processes' merged message."""
    if DEBUG in os.environ and program[0] == sys.executable:
        program = [sys.executable, "-m", "slipway_trainer.agent.child", *program[1:]]
    with tempfile.TemporaryDirectory(prefix="slipway-") as directory:
        scratch = Path(directory)
        if processes > 1 and program[0] == sys.executable:
            # torchrun reads replicas and master from PET_* and MASTER_*: see `processes`.
            torchrun = ["-m", "slipway_trainer.agent.processes", str(processes)]
            code, *_ = wait_for([sys.executable, *torchrun, *program[1:]], scratch)
            message = merged(scratch, code, processes)
            return code, message if code != 0 else besides(scratch, message)
        if shutil.which(program[0]) is None:
            how = "one word per list item, ./X for a file in the folder, packages in `requirements`"
            text = f"{program[0]} is no program on PATH: {how}"
            return _NOT_FOUND, {"rank": own_rank(), "error": text}
        code, last, pid = wait_for(program, scratch)
        # The program may also write the container's message itself.
        left = merged(scratch, 0, processes)
        message = {**termination.read(termination.place()), **left}
        if code == 0 or "error" in message:
            return code, message if code != 0 else besides(scratch, message, pid, last)
        return code, {"rank": own_rank(), **(recorded(scratch, code, pid) or from_log(last, code))}


def _copy(
    directory: Path, url: str, code: int, message: dict[str, Any], sent: Mirror
) -> tuple[int, dict[str, Any]]:
    """Copy the files that `sent` has not copied yet; return the new exit code and message."""
    rank, copied = message.get("rank", own_rank()), WORK / ".copied"
    if signal.SIGTERM in received and copied.exists():
        # The kubelet restarts a container though its job has failed: its first files are final.
        return code, message
    is_demanded, target = "SLIPWAY_OUTPUTS" in os.environ, _destination(url, code, rank)
    try:
        if not is_demanded and any(directory.iterdir()):
            artifacts.reach(url)
        done = sent.unchanged() if sent.url == target else ()
        # A rank that prints nothing for 30 s after rank 0 has succeeded is given up.
        with sent.following(_TELL_SECONDS, lambda: Events(rank).emit("copying", url=target)):
            listed = artifacts.sync(directory, target, Events(rank), sent=done)
        with suppress(OSError):  # an image of the user's own may have no such folder
            copied.touch()
    except Exception as error:  # noqa: BLE001 - each store raises its own errors
        text = _failed(f"{directory} could not be copied to {url}", error)
        is_full = getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT}
        if is_full and target != url and not (is_demanded or copied.exists() or sent.unchanged()):
            # A part of the files would fill the volume for all later runs.
            shutil.rmtree(target.removeprefix("file://"), ignore_errors=True)
        if code == 0 and is_demanded:
            return report.EXIT_FAILED, {"rank": rank, **message, "error": text}
        return code, message
    if listed and not is_demanded:
        try:
            run_id, succeeded = os.environ["SLIPWAY_RUN_ID"], os.environ.get("SLIPWAY_SUCCEEDED")
            artifacts.prune(url, run_id, succeeded, is_success=code == 0)
        except Exception as error:  # noqa: BLE001 - as above; must not fail this run
            _failed(f"earlier runs' files in {url} could not be removed", error)
    return code, {"rank": rank, **message, "artifacts": listed} if listed else message


def _hold(code: int, message: dict[str, Any]) -> None:
    """If the program failed by itself, report it and keep the pod running for the job's `hold`."""
    seconds, rank = int(os.environ.get(_HOLD, "0")), message.get("rank", own_rank())
    is_stopped = signal.SIGTERM in received or message.get("from") == PEER
    # An out-of-memory kill shows only once the container really terminates.
    if seconds == 0 or is_stopped or code in {0, _KILLED}:
        return
    now = datetime.now(timezone.utc)
    text = json.dumps(termination.read(termination.container_log()))
    until = f"{now + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} UTC"
    ended = {"exitCode": code, "reason": "Error", "finishedAt": f"{now:%FT%TZ}", "message": text}
    Events(rank).emit("held", until=until, terminated=ended)
    with tempfile.TemporaryDirectory(prefix="slipway-") as scratch:
        # For `make shell`: a process with the program's environment and directory.
        wait_for(["env", f"RANK={rank}", "sleep", str(seconds)], Path(scratch))


def _destination(url: str, code: int, rank: int) -> str:
    """Return the URL for this replica's files: the run's folder, or a subfolder if not rank 0."""
    if "PET_RDZV_ENDPOINT" in os.environ:
        # In an elastic job, the worker that succeeds as rank 0 has the result.
        replica = None if code == 0 and rank == 0 else given_rank()
    else:
        replica = int(os.environ.get("PET_NODE_RANK", os.environ.get("RANK", "0"))) or None
    own = None if replica is None else f"replica-{replica}"
    return "/".join(filter(None, (url.rstrip("/"), os.environ.get("SLIPWAY_RUN_ID"), own)))


if __name__ == "__main__":
    # Exit immediately, since upload threads may still be waiting after a timeout.
    report.end(main(sys.argv[1:]))
