"""Run several processes in one pod with torchrun, and merge their termination messages.

    python3 -m slipway_trainer.agent.processes 2 train.py --epochs 1

`slipway_trainer.launch` runs this. It exits with the code of the rank that failed first, and writes
that rank's message to SLIPWAY_MESSAGE_DIR. torchrun itself always exits with 1, and compares the
times of failures in whole seconds.
"""

import json
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from slipway.events import own_rank, warn
from slipway.reporting import logged, numbers
from slipway.termination import read
from slipway.uncaught import PEER, in_text
from slipway.worlds import noted
from slipway_trainer.agent.printed import MARK, METRICS

FIRST_FAILURE = "first-failure.json"
_USAGE, _REFUSAL = 2, re.compile(r"(?m)^(.+: error: .+)\s*\Z")
_LAST_LINES = 30
LAST_BYTES = 64 * 1024
"""Number of bytes kept from the end of a process's standard error."""
NUMBERS = "metrics.json"


def merged(directory: Path, code: int, processes: int) -> dict[str, Any]:
    """Merge the processes' termination messages, which are files in `directory`.

    After a success, return the lowest rank's message, with the total number of samples if all
    `processes`, or as many more as the program itself started, reported theirs. After a failure,
    return the message of the rank that failed first, which `main` has recorded.
    """
    if code != 0:
        return read(directory / FIRST_FAILURE) or from_log("", code)
    ranks = sorted(int(path.stem) for path in directory.glob("[0-9]*.json"))
    left = [message for rank in ranks if (message := read(directory / f"{rank}.json"))]
    reported = (message.get("samples_seen") for message in left)
    counts = [number for number in reported if isinstance(number, (int, float))]
    total = {"samples_seen": sum(counts)} if processes <= len(counts) == len(left) else {}
    first = left[0] if left else {}
    return {key: value for key, value in first.items() if key != "samples_seen"} | total


def with_numbers(message: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return `message` with the numbers that this process logged and those in file `NUMBERS`."""
    path, printed = directory / NUMBERS, logged()
    extra = read(path, 2**20) if path.is_file() else {}
    if path.is_file() and not extra:
        warn(f"{path} is ignored: it is not a JSON map of numbers, or is larger than 1 MiB")
    if not printed["metrics"] and not extra:
        return message
    printed["metrics"] |= numbers(extra)
    for name, values in printed.items():
        own = message.get(name)
        printed[name] = {**values, **(own if isinstance(own, dict) else {})}
    return {"rank": own_rank(), **message, **printed}


def besides(
    directory: Path, own: Mapping[str, Any], pid: int = 0, text: str = ""
) -> dict[str, Any]:
    """Return a successful program's message, `own`, with the process groups that it trained in.

    A warning is added if a record in `directory` or the output `text` shows that a child of process
    `pid` failed.
    """
    failed = [each for each in map(read, directory.glob("failed-*.json")) if each.get("pid") != pid]
    # multiprocessing's report on a process that ended with an exception.
    printed = re.search(r"(?ms)^Process \S+:\n(Traceback .*)", text)
    child = next(iter(failed), None) or (in_text(printed[1]) if printed else None)
    extra: dict[str, Any] = {"trained": trained} if (trained := noted(directory)) else {}
    if child is not None:
        what = ", ".join(filter(None, (child.get("error"), child.get("at"))))
        extra["warning"] = f"the program succeeded, but a process that it started ended with {what}"
    # Of rank 0's pod, another rank may have reported; elastic workers have no RANK.
    first = {"rank": 0} if os.environ.get("RANK") == "0" else {}
    return {"rank": own_rank(), **own, **extra, **first} if own or extra else {}


def without_a_trace(directory: Path) -> dict[str, Any]:
    """Return a message with the program's CPU time if it wrote no files, or else an empty map."""
    if directory.is_dir() and any(directory.iterdir()):
        return {}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"rank": own_rank(), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1)}


def from_log(text: str, code: int) -> dict[str, Any]:
    """Return a message for a program that left none, based on the tail of its standard error."""
    if code == 0:
        return {}
    # Python exits with 1 after an exception, argparse with 2; other codes are the program's own.
    if code == 1 and (error := in_text(text)) is not None:
        return error
    if code == _USAGE and (refusal := _REFUSAL.search(text)):
        return {"error": refusal[1]}
    lines = [line[-LAST_BYTES // _LAST_LINES :] for line in text.splitlines()[-_LAST_LINES:]]
    return {"error": f"the program {ended(code)}", "traceback": "\n".join(lines)}


def recorded(directory: Path, code: int, pid: int, rank: int | str = "*") -> dict[str, Any]:
    """Return the exception that terminated a program, from its processes' records, or an empty map.

    If there are several records, the first that failed on its own counts. A helper process's
    error counts only if process `pid` itself exited with an exception.
    """
    left = sorted(directory.glob(f"failed-{rank}.json"), key=lambda path: path.stat().st_mtime_ns)
    own = [each for each in map(read, left) if code == 1 or each.get("pid") == pid]
    first: dict[str, Any] = min(own, key=lambda each: each.get("from") == PEER, default={})
    return {name: value for name, value in first.items() if name != "pid"}


def ended(code: int) -> str:
    """Describe how a process ended, from its exit code as a shell or Python reports it."""
    number = -code if code < 0 else code - 128
    try:
        return f"was terminated by {signal.Signals(number).name}"
    except ValueError:
        return f"exited with code {code}"


def main(processes: int, program: list[str]) -> int:
    """Run the program in `processes` processes and return the exit code for all of them."""
    # Imported here, since the launcher uses this module's other functions without torch.
    from torch.distributed import run as torchrun  # noqa: PLC0415
    from torch.distributed.elastic.multiprocessing import api, errors, tail_log  # noqa: PLC0415

    tail_log.open = in_pieces
    directory = Path(os.environ["SLIPWAY_MESSAGE_DIR"])
    # Standard error goes to a file per rank and, with a prefix, to this process's standard error.
    # So does standard output if it is searched for numbers, although only rank 0's numbers count.
    mark, tee = (MARK, 3) if METRICS in os.environ else ("", 2)
    os.environ.setdefault("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", f"[${{rank}}] {mark}")
    options = [*_replicas(), f"--nproc-per-node={processes}", "--max-restarts=0"]
    options += [f"--log-dir={directory / 'logs'}", f"--tee={tee}"]
    try:
        torchrun.main([*options, *program])
    except errors.ChildFailedError as error:
        return _first_failure(error.failures, directory)
    except api.SignalException as error:
        return 128 + int(error.sigval)
    return 0


def in_pieces(path: str, **options: Any) -> IO[Any]:
    """Open a log for torchrun's output that limits the length of each copied line."""
    file: IO[Any] = Path(path).open(**options)  # noqa: SIM115 - its caller closes it
    file.readline = partial(file.readline, LAST_BYTES)  # type: ignore[method-assign]
    return file


def _replicas() -> list[str]:
    """Return torchrun's options for this job's pods, or for a single machine."""
    env = os.environ
    if "MASTER_ADDR" not in env:
        with socket.create_server(("127.0.0.1", 0)) as free:
            return ["--nnodes=1", f"--master-port={free.getsockname()[1]}"]
    return [
        f"--nnodes={env.get('PET_NNODES', '1')}",
        f"--node-rank={env.get('PET_NODE_RANK', '0')}",
        f"--master-addr={env['MASTER_ADDR']}",
        f"--master-port={env.get('MASTER_PORT', '29500')}",
    ]


def _first_failure(failures: Mapping[int, Any], directory: Path) -> int:
    """Write the message of the rank that failed first, and return that rank's exit code.

    The other ranks report a lost peer, or torchrun stops them. Among ranks that failed by
    themselves, the first is the one whose last output is the oldest.
    """
    candidates = []
    for rank, failure in failures.items():
        file = directory / f"{rank}.json"
        [log] = (directory / "logs").glob(f"*/attempt_0/{failure.local_rank}/stderr.log")
        if "error" not in (message := read(file)):
            file = file if file.exists() else log
            if message := recorded(directory, failure.exitcode, failure.pid, rank):
                file = directory / f"failed-{rank}.json"
        message = {"rank": rank, **(message or from_log(_end_of(log), failure.exitcode))}
        # torchrun sends SIGTERM to the remaining ranks.
        is_left = ended(failure.exitcode) == "was terminated by SIGTERM" and "from" not in message
        follows = is_left or message.get("from") == PEER
        candidates.append((follows, file.stat().st_mtime_ns, rank, message))
    *_, rank, message = min(candidates, key=lambda each: each[:2])
    code: int = failures[rank].exitcode
    (directory / FIRST_FAILURE).write_text(json.dumps(message))
    print(f"rank {rank} failed first: it {ended(code)}", file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LAST_BYTES))
        return file.read(LAST_BYTES).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
