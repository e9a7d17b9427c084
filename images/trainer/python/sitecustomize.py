"""What every Python of this image does besides: tell where it hangs, and what pictures it reads.

With SIGTERM it writes its stack to standard error, so the log of a rank that hangs ends with it,
where jobs/ finds it. Whoever opens files of what stands in for CIFAR-10 in the image, with
torchvision, pickle or anything else in Python, has that data set's name in its result.
"""

import faulthandler
import os
import signal
import sys

# By its descriptor: a program may have replaced sys.stderr. `chain`: it ends as it would have.
faulthandler.register(signal.SIGTERM, file=2, all_threads=True, chain=True)

_CIFAR10 = "/data/cifar10"


def _name_pictures(event: str, arguments: tuple[object, ...]) -> None:
    """Look at what is opened: https://docs.python.org/3.13/library/audit_events.html."""
    if event != "open" or "_batch" not in str(arguments[0]):
        return
    if os.path.realpath(str(arguments[0])).startswith(f"{_CIFAR10}/cifar-10-batches-py/"):
        from slipway_trainer.training import report  # noqa: PLC0415 - no other program needs it

        report.name_stand_in(_CIFAR10)


if os.path.exists(f"{_CIFAR10}/DATASET"):  # noqa: PTH110 - pathlib would take each start longer
    sys.addaudithook(_name_pictures)

# gloo's thread for input polls for a lock. Where it preempts the thread that holds it, as none does
# in a batch process, the message waits for the scheduler's next tick: 3 ms instead of 0.4.
if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110
    try:  # noqa: SIM105 - contextlib would take each start longer
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # a sandbox that has no such call: messages take longer there
        pass
