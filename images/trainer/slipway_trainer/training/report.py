"""Run a rank of one of the trainer's programs; exit with a termination message and exit code."""

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from slipway import termination, uncaught
from slipway.checkpoints import EXIT_TERMINATED, stopping
from slipway.events import Events, own_rank

EXIT_FAILED = 1
saves = threading.Event()
"""Set by a program that writes a checkpoint, on SIGTERM, after the current step."""


def run(work: Callable[[Events], dict[str, Any]]) -> None:
    """Run `work` as this rank's program, report its summary or failure, and exit."""
    events = Events(own_rank())
    _end_on_sigterm(events)
    try:
        summary = work(events)
    except BaseException as error:  # noqa: BLE001 - any error is reported, then the process ends
        code = _fail(events, error)
    else:
        final = termination.corrected(summary)
        events.emit("completed", **{key: final[key] for key in final if key != "rank"})
        termination.leave(summary)
        code = 0
    end(code)


def _fail(events: Events, error: BaseException) -> int:
    """Report `error` on stderr, as an event and as the termination message; return an exit code."""
    if isinstance(error, SystemExit) and error.code in (0, None):
        return 0  # --help
    print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
    details = uncaught.described(error)
    events.emit("failed", error=details["error"])
    termination.leave({"rank": events.rank, **details})
    return EXIT_FAILED


def _end_on_sigterm(events: Events) -> None:
    # A Python handler runs only once torch returns from C++, so a thread waits for the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        stopping.set()
        if saves.is_set():
            time.sleep(20.0)  # less than the pod's grace period (jobs/model/places.py)
        faulthandler.dump_traceback(2)
        end_terminated(events)

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def end_terminated(events: Events) -> NoReturn:
    """Report that this rank received SIGTERM, and exit."""
    events.emit("terminated")
    termination.leave({"rank": events.rank, "error": "terminated by SIGTERM"})
    end(EXIT_TERMINATED)


def end(code: int) -> NoReturn:
    """Exit immediately, without joining any threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
