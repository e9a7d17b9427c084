"""Hooks in every Python process in this image: they record errors, stack traces and data sets.

An uncaught exception is recorded, with the line in the user's code that raised it:
`slipway.uncaught`. The audit event comes before sys.excepthook, so programs can set their own hook.

On SIGTERM, a process writes its stack traces to standard error, so that jobs/ finds them at the end
of a hanging rank's log. On the signal that `slipway_trainer.inside` sends, it writes them to a file
and continues. If a process reads the data set that replaces CIFAR-10 in the image, with
torchvision, pickle or other Python code, its result names that data set.
"""

import builtins
import faulthandler
import os
import signal
import sys

# By descriptor, as a program may replace sys.stderr. With `chain`, the process then exits as usual.
faulthandler.register(signal.SIGTERM, file=2, all_threads=True, chain=True)
try:
    # Programs may use SIGUSR1 themselves. The file is in memory and anonymous.
    _stacks = os.memfd_create("slipway-stacks")
    faulthandler.register(signal.SIGRTMIN + 7, file=_stacks, all_threads=True)
except OSError:  # a sandbox without this system call
    pass

_CIFAR10 = "/data/cifar10"
_STANDS_IN = os.path.exists(f"{_CIFAR10}/DATASET")  # noqa: PTH110 - pathlib slows down every start

# All of torch's backward passes call this function, which torch itself also replaces.
_BACKWARD = "_engine_run_backward"
_to_watch = ["torch.autograd"] if "SLIPWAY_MESSAGE_DIR" in os.environ else []


def _record(error: BaseException | None, text: str = "") -> None:
    """Record the error that terminates this process; ignore errors while recording it."""
    try:
        from slipway import uncaught  # noqa: PLC0415 - a program that succeeds does not need it

        uncaught.record(error, text)
    except BaseException:  # noqa: BLE001, S110 - it is ending already, and its log shows the error
        pass


def _exit(status: object = None, /) -> None:
    """Record the error, if any, and exit like sys.exit, for which Python raises no audit event.

    The error is a string passed as `status`, or an exception that the caller is handling: wrappers
    such as Hydra's print the exception and exit.
    """
    error = sys.exc_info()[1]
    trace = None if error is None else error.__traceback__
    handled = error if trace is not None and trace.tb_frame is sys._getframe(1) else None  # noqa: SLF001
    if status is not None and not isinstance(status, int):
        _record(handled, str(status))
    elif handled is not None and 0 < (status or 0) < 128:  # other codes mean a signal
        _record(handled)
    raise SystemExit(status)


sys.exit = builtins.exit = builtins.quit = _exit  # type: ignore[assignment]


def _see(event: str, arguments: tuple[object, ...]) -> None:
    """Process an audit event: https://docs.python.org/3.13/library/audit_events.html."""
    if event == "sys.excepthook" and isinstance(arguments[2], BaseException):
        _record(arguments[2])
    elif event == "open" and _STANDS_IN and "_batch" in str(arguments[0]):
        _name_pictures(arguments)
    elif event == "import" and _to_watch and hasattr(sys.modules.get(_to_watch[0]), _BACKWARD):
        _await_training(sys.modules[_to_watch.pop()])


def _await_training(autograd: object) -> None:
    """Make `slipway.worlds` start watching this process at its first backward pass."""
    run = getattr(autograd, _BACKWARD)

    def first(*arguments: object, **options: object) -> object:
        setattr(autograd, _BACKWARD, run)
        try:
            from slipway import worlds  # noqa: PLC0415 - no other program needs it

            worlds.watch(autograd)
        except Exception:  # noqa: BLE001, S110 - it must not fail the training
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

    # Before 3.14, an invalid help text, such as "50% of all" or Hydra's, broke only --help.
    argparse._ActionsContainer._check_help = lambda *_: None  # type: ignore[attr-defined] # noqa: SLF001
    # The default before 3.14, for scripts that use DataLoader workers without a main guard. Calling
    # set_start_method instead would break programs that set another one.
    context._default_context._default_context = context._concrete_contexts["fork"]  # type: ignore[attr-defined] # noqa: SLF001

# gloo's input thread polls for a lock. If it preempts the thread that holds the lock, a message
# waits for the scheduler's next tick, 3 ms instead of 0.4. A batch process's threads never preempt.
if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110
    try:  # noqa: SIM105 - importing contextlib would slow down every start
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # a sandbox without this call, where messages take longer
        pass
