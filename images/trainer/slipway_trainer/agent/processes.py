"""Several processes in one pod: torchrun, and after a failure the rank that failed first.

    python3 -m slipway_trainer.agent.processes 2 train.py --epochs 1

`slipway_trainer.launch` runs this; the exit code is the one of the rank that failed first, and its
message goes to SLIPWAY_MESSAGE_DIR. torchrun itself always ends with 1, and notes times in whole
seconds, in which all others have failed too: their connections closed.
"""

import json
import os
import socket
import sys
from pathlib import Path

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from slipway.termination import read
from slipway_trainer.agent import messages


def main(processes: int, program: list[str]) -> int:
    """Run the program in so many processes and return the exit code for all of them."""
    directory = Path(os.environ["SLIPWAY_MESSAGE_DIR"])
    # Standard error goes to a file each and, with its rank in front, to this process' own.
    os.environ.setdefault("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${rank}] ")
    options = [*_replicas(), f"--nproc-per-node={processes}", "--max-restarts=0"]
    options += [f"--log-dir={directory / 'logs'}", "--tee=2"]
    try:
        torchrun.main([*options, *program])
    except ChildFailedError as error:
        return _first_failure(error.failures, directory)
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


def _replicas() -> list[str]:
    """Return torchrun's options for the pods of this job, or for one machine alone."""
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


def _first_failure(failures: dict[int, ProcessFailure], directory: Path) -> int:
    """Note what the rank that failed first has to say, and return its exit code.

    The others fail because of it, so it is the one that wrote its last words first. One that was
    killed wrote none: its last ones are older still.
    """
    left = {rank: directory / f"{rank}.json" for rank in failures}
    logs = {rank: _log(directory, failure.local_rank) for rank, failure in failures.items()}
    last_words = {rank: left[rank] if left[rank].exists() else logs[rank] for rank in failures}
    rank = min(failures, key=lambda each: last_words[each].stat().st_mtime_ns)
    code: int = failures[rank].exitcode
    message = read(left[rank])
    if "error" not in message:
        text = logs[rank].read_text(errors="replace")
        message = {"rank": rank, **messages.from_log(text, code)}
    (directory / messages.FIRST_FAILURE).write_text(json.dumps(message))
    print(f"rank {rank} failed first: it {messages.ended(code)}", file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code


def _log(directory: Path, local_rank: int) -> Path:
    """Return the file that torchrun put a process' standard error into."""
    [path] = (directory / "logs").glob(f"*/attempt_0/{local_rank}/stderr.log")
    return path


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
