"""What every Python of this image does besides: tell why it fails, where it hangs, what it reads.

The exception that ends a process is recorded, with the user's line: `slipway.uncaught`. Python
announces it before it calls sys.excepthook, so a program may have a hook of its own.

With SIGTERM it writes its stack to standard error, so the log of a rank that hangs ends with it,
where jobs/ finds it; with another signal it shows its stack and goes on (`slipway_trainer.inside`).
Whoever opens files of what stands in for CIFAR-10 in the image, with
torchvision, pickle or anything else in Python, has that data set's name in its result.
"""

import builtins
import faulthandler
import os
import signal
import sys

# By its descriptor: a program may have replaced sys.stderr. `chain`: it ends as it would have.
faulthandler.register(signal.SIGTERM, file=2, all_threads=True, chain=True)
try:
    # Programs have other uses for SIGUSR1. This file has no name, and needs no room on a disk.
    _stacks = os.memfd_create("slipway-stacks")
    faulthandler.register(signal.SIGRTMIN + 7, file=_stacks, all_threads=True)
except OSError:  # a sandbox that has no such call
    pass

_CIFAR10 = "/data/cifar10"
_STANDS_IN = os.path.exists(f"{_CIFAR10}/DATASET")  # noqa: PTH110 - pathlib slows each start

# All of torch's backward passes go through this function, which torch itself replaces, too.
_BACKWARD = "_engine_run_backward"
_to_watch = ["torch.autograd"] if "SLIPWAY_MESSAGE_DIR" in os.environ else []


def _record(error: BaseException | None, text: str = "") -> None:
    """Record what ends this process; whatever goes wrong here is no failure of the program."""
    try:
        from slipway import uncaught  # noqa: PLC0415 - a program that succeeds does not need it

        uncaught.record(error, text)
    except BaseException:  # noqa: BLE001, S110 - it ends already, and its log has the error
        pass


def _exit(status: object = None, /) -> None:
    """End the program as sys.exit does, of which Python announces nothing.

    A text is its error. So is the exception that its caller handles, as wrappers such as Hydra's
    do, which print it.
    """
    error = sys.exc_info()[1]
    trace = None if error is None else error.__traceback__
    handled = error if trace is not None and trace.tb_frame is sys._getframe(1) else None  # noqa: SLF001
    if status is not None and not isinstance(status, int):
        _record(handled, str(status))
    elif handled is not None and 0 < (status or 0) < 128:  # others stand for a signal
        _record(handled)
    raise SystemExit(status)


sys.exit = builtins.exit = builtins.quit = _exit  # type: ignore[assignment]


def _see(event: str, arguments: tuple[object, ...]) -> None:
    """Look at what happens: https://docs.python.org/3.13/library/audit_events.html."""
    if event == "sys.excepthook" and isinstance(arguments[2], BaseException):
        _record(arguments[2])
    elif event == "open" and _STANDS_IN and "_batch" in str(arguments[0]):
        _name_pictures(arguments)
    elif event == "import" and _to_watch and hasattr(sys.modules.get(_to_watch[0]), _BACKWARD):
        _await_training(sys.modules[_to_watch.pop()])


def _await_training(autograd: object) -> None:
    """Have the first backward pass begin the watch of `slipway.worlds`."""
    run = getattr(autograd, _BACKWARD)

    def first(*arguments: object, **options: object) -> object:
        setattr(autograd, _BACKWARD, run)
        try:
            from slipway import worlds  # noqa: PLC0415 - no other program needs it

            worlds.watch(autograd)
        except Exception:  # noqa: BLE001, S110 - no training fails because of it
            pass
        return getattr(autograd, _BACKWARD)(*arguments, **options)

    setattr(autograd, _BACKWARD, first)


def _name_pictures(arguments: tuple[object, ...]) -> None:
    if os.path.realpath(str(arguments[0])).startswith(f"{_CIFAR10}/cifar-10-batches-py/"):
        from slipway import termination  # noqa: PLC0415 - no other program needs it

        termination.name_stand_in(_CIFAR10)


sys.addaudithook(_see)

if sys.version_info >= (3, 14):
    import argparse
    from multiprocessing import context

    # A help text that can't be formatted, as "50% of all" and Hydra's, failed only --help before.
    argparse._ActionsContainer._check_help = lambda *_: None  # type: ignore[attr-defined] # noqa: SLF001
    # The default before: a script without a main guard has a DataLoader with workers. Set, it would
    # refuse a program that sets another one.
    context._default_context._default_context = context._concrete_contexts["fork"]  # type: ignore[attr-defined] # noqa: SLF001

# gloo's thread for input polls for a lock. Where it preempts the thread that holds it, as none does
# in a batch process, the message waits for the scheduler's next tick: 3 ms instead of 0.4.
if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110
    try:  # noqa: SIM105 - contextlib would take each start longer
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # a sandbox that has no such call: messages take longer there
        pass
