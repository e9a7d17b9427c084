"""Start a job's program, in one process or several, and do what is left when it has ended.

    python3 -m slipway_trainer.launch -- train.py --epochs 1
    python3 -m slipway_trainer.launch --processes 2 -- -m slipway_trainer.mnist --epochs 1
    python3 -m slipway_trainer.launch --command -- accelerate launch train.py

It starts it where `Place` is, makes SLIPWAY_OUTPUT_DIR, adds the numbers in its metrics.json to the
termination message, and copies what is in it to the URL SLIPWAY_OUTPUTS, also when the program
failed, or to SLIPWAY_KEPT, where a file that could not be kept is no failure. With
SLIPWAY_OUTPUTS_EVERY, in seconds, they are copied while the program runs, too.
Checkpoints lie in SLIPWAY_CHECKPOINT_DIR, or at the URL SLIPWAY_CHECKPOINT_URL, with which that
directory is kept alike; those of a program that ended well are removed. Where that URL has none
they come from SLIPWAY_CHECKPOINT_URL_BEFORE, which may be another stack's: nothing changes there,
and after a success `ended` at the own place says that those are not to be gone on with.

Several processes run under torchrun, unless a command starts them; their messages become the
container's one. A single process of the image's own programs just replaces this one when nothing is
left to do. So this module imports neither torch nor fsspec unless they are needed.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slipway import termination
from slipway.events import Events, own_index, own_rank
from slipway.uncaught import PEER
from slipway_trainer.agent import artifacts
from slipway_trainer.agent.child import DEBUG, received, wait_for
from slipway_trainer.agent.mirror import Mirror
from slipway_trainer.agent.place import Place
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
"""How often new checkpoints are looked for."""
_BEFORE, _ENDED = "SLIPWAY_CHECKPOINT_URL_BEFORE", "ended"
_NOT_FOUND, _KILLED, _HOLD = 127, 128 + signal.SIGKILL, "SLIPWAY_HOLD"


def main(arguments: Sequence[str]) -> int:
    """Run the program that follows `--` and return the exit code for this container."""
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
    has_more |= tracking is not None or bool({METRICS, _HOLD, DEBUG} & os.environ.keys())
    if processes == 1 and not has_more and program[:2] == [sys.executable, "-m"]:
        sys.stdout.flush()
        os.execv(sys.executable, program)  # noqa: S606 - that is its purpose
    target = "" if url is None else _destination(url, 1, own_rank())
    sent = Mirror(directory, target, place.gather)
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
    if left and message.get("rank", own_rank()) == 0:
        Events(0).emit("warning", warning=place.warning(left))
        message = {"rank": 0, **message, "left_behind": left}
    if message:
        termination.leave(message)
    _hold(code, message)
    return code


def _parse(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Return how many processes there are, and the command that starts one, or all of them."""
    cut = [*arguments, "--"].index("--")
    own, program = arguments[:cut], [*arguments[cut + 1 :]]
    usage = "%(prog)s [--processes N] [--command] -- {SCRIPT | -m MODULE | COMMAND} [ARGUMENT …]"
    parser = argparse.ArgumentParser(prog="slipway_trainer.launch", usage=usage)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--command", action="store_true")
    options = parser.parse_args(own)
    processes: int = options.processes
    if processes < 1:
        parser.error(f"--processes {processes} is not allowed, it takes 1 or more")
    if not program or program == ["-m"]:
        parser.error("nothing to run: name a script, or -m and a module, after `--`")
    return processes, program if options.command else [sys.executable, *program]


def _resume(processes: int, program: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Run the program with the checkpoints of its job, if it has any; return as `_run`."""
    if (directory := os.environ.get("SLIPWAY_CHECKPOINT_DIR")) is None:
        return _run(processes, program)
    url = os.environ.get("SLIPWAY_CHECKPOINT_URL")
    parent, _, own = (f"file://{directory}" if url is None else url).rpartition("/")
    saved = None if url is None else Mirror(Path(directory), url)
    try:
        if own_rank() == 0:
            # Of the job's other declarations, beside which its own are.
            artifacts.remove_folders(
                parent, lambda name: name != own and re.fullmatch("[0-9a-f]{16}", name) is not None
            )
        if (
            saved is not None
            and not saved.fetch()
            and _BEFORE in os.environ
            and not artifacts.exists(f"{parent}/{_ENDED}")
        ):
            saved.fetch(os.environ[_BEFORE])
    except Exception as error:  # noqa: BLE001 - every store has errors of its own
        text = _failed(f"the checkpoints in {parent} can't be read", error)
        return report.EXIT_FAILED, {"rank": own_rank(), "error": text}
    with nullcontext() if saved is None else saved.following(_LOOK_SECONDS):
        code, message = _run(processes, program)
    try:
        if code == 0 and message.get("rank", own_rank()) == 0:
            # What has come to its end is not to be gone on with.
            if _BEFORE in os.environ:
                artifacts.write(f"{parent}/{_ENDED}", os.environ["SLIPWAY_RUN_ID"])
            artifacts.remove_folders(parent, lambda name: name == own)
        elif code != 0 and saved is not None:
            saved.copy(settled_seconds=0)
    except Exception as error:  # noqa: BLE001 - as above
        _failed(f"the checkpoints in {parent} could not be removed", error)
    return code, message


def _failed(what: str, error: Exception) -> str:
    """Report what failed and why as an event, and return it."""
    text = f"{what}: {artifacts.described(error)}"
    Events(own_rank()).emit("warning", warning=text)
    return text


def _set_torchruns_variables() -> None:
    # https://docs.pytorch.org/docs/2.14/elastic/run.html#environment-variables
    if "TORCHELASTIC_RUN_ID" in os.environ:
        ranks = dict.fromkeys(("GROUP_RANK", "ROLE_RANK", "NODE_RANK"), os.environ["RANK"])
        size = os.environ["WORLD_SIZE"]
        sizes = dict.fromkeys(("GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"), size)
        none = dict.fromkeys(("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"), "0")
        os.environ.update({**ranks, **sizes, **none, **os.environ})


def _run(processes: int, program: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Run the program to its end; return its exit code and the message of all its processes."""
    if DEBUG in os.environ and program[0] == sys.executable:
        program = [sys.executable, "-m", "slipway_trainer.agent.child", *program[1:]]
    with tempfile.TemporaryDirectory(prefix="slipway-") as directory:
        scratch = Path(directory)
        if processes > 1 and program[0] == sys.executable:
            # torchrun takes the replicas and their master from PET_* and MASTER_*, see its module.
            torchrun = ["-m", "slipway_trainer.agent.processes", str(processes)]
            command = [sys.executable, *torchrun, *program[1:]]
            code, *_ = wait_for(command, scratch, "[0] ")
            message = merged(scratch, code, processes)
            return code, message if code != 0 else besides(scratch, message)
        if shutil.which(program[0]) is None:
            text = f"there is no program {program[0]} on PATH; is its package in `requirements`?"
            return _NOT_FOUND, {"rank": own_rank(), "error": text}
        code, last, pid = wait_for(program, scratch)
        # It may write the container's message itself.
        left = merged(scratch, 0, processes)
        message = {**termination.read(termination.place()), **left}
        if code == 0 or "error" in message:
            return code, message if code != 0 else besides(scratch, message, pid, last)
        return code, {"rank": own_rank(), **(recorded(scratch, code, pid) or from_log(last, code))}


def _copy(
    directory: Path, url: str, code: int, message: dict[str, Any], sent: Mirror
) -> tuple[int, dict[str, Any]]:
    """Copy the program's files out, but those `sent`; return the exit code and the message then."""
    rank = message.get("rank", own_rank())
    is_demanded = "SLIPWAY_OUTPUTS" in os.environ
    try:
        if not is_demanded and any(directory.iterdir()):
            artifacts.reach(url)
        target = _destination(url, code, rank)
        done = sent.unchanged() if sent.url == target else ()
        listed = artifacts.sync(directory, target, Events(rank), sent=done)
    except Exception as error:  # noqa: BLE001 - every store has errors of its own
        text = _failed(f"{directory} could not be copied to {url}", error)
        if code == 0 and is_demanded:
            return report.EXIT_FAILED, {"rank": rank, **message, "error": text}
        return code, message
    if listed and not is_demanded:
        try:
            run_id, succeeded = os.environ["SLIPWAY_RUN_ID"], os.environ.get("SLIPWAY_SUCCEEDED")
            artifacts.prune(url, run_id, succeeded, is_success=code == 0)
        except Exception as error:  # noqa: BLE001 - as above; it is no failure of this run
            _failed(f"files of earlier runs in {url} could not be removed", error)
    return code, {"rank": rank, **message, "artifacts": listed} if listed else message


def _hold(code: int, message: dict[str, Any]) -> None:
    """Let a pod whose program failed by itself stay as its job says; its end is the event."""
    seconds, rank = int(os.environ.get(_HOLD, "0")), message.get("rank", own_rank())
    is_stopped = signal.SIGTERM in received or message.get("from") == PEER
    # Whether it was killed for its memory, the container's real end alone shows.
    if seconds == 0 or is_stopped or code in {0, _KILLED}:
        return
    now, text = datetime.now(UTC), json.dumps(termination.read(termination.container_log()))
    until = f"{now + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} UTC"
    ended = {"exitCode": code, "reason": "Error", "finishedAt": f"{now:%FT%TZ}", "message": text}
    Events(rank).emit("held", until=until, terminated=ended)
    with tempfile.TemporaryDirectory(prefix="slipway-") as scratch:
        # A process with the program's environment and directory, for `make shell` to find.
        wait_for(["env", f"RANK={rank}", "sleep", str(seconds)], Path(scratch))


def _destination(url: str, code: int, rank: int) -> str:
    """Return where this replica's files go: those of rank 0 straight into the run's folder."""
    if "PET_RDZV_ENDPOINT" in os.environ:
        # The result of an elastic job is with the worker that ends well as rank 0, whichever it is.
        replica = None if code == 0 and rank == 0 else own_index()
    else:
        replica = int(os.environ.get("PET_NODE_RANK", os.environ.get("RANK", "0"))) or None
    folders = [url.rstrip("/"), os.environ.get("SLIPWAY_RUN_ID", "")]
    if replica is not None:
        folders.append(f"replica-{replica}")
    return "/".join(filter(None, folders))


if __name__ == "__main__":
    # At once: an upload that ran out of time may have left threads that still wait for it.
    report.end(main(sys.argv[1:]))
