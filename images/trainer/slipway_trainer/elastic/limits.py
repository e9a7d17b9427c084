"""A limit for what has none of its own: asking a worker that stands still may take for ever."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Result = TypeVar("Result")


def within(seconds: float, what: str, work: Callable[[], Result]) -> Result:
    """Return what `work` returns; it runs in a thread, which is left behind when it is too slow.

    Raises:
        TimeoutError: it took longer; the message says what did.
    """
    ended: dict[str, Any] = {}

    def run() -> None:
        try:
            ended["result"] = work()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            ended["error"] = error

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(seconds)
    if "error" in ended:
        raise ended["error"]
    if "result" not in ended:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")
    result: Result = ended["result"]
    return result


def together(seconds: float, works: Mapping[int, Callable[[], Result]]) -> dict[int, Result]:
    """Do all of `works` side by side; return what those returned that ended well and in time."""
    results: dict[int, Result] = {}

    def run(key: int, work: Callable[[], Result]) -> None:
        try:
            result = work()
        except (OSError, RuntimeError, ValueError):
            return
        results[key] = result

    threads = [
        threading.Thread(target=run, args=each, name="together", daemon=True)
        for each in works.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    return dict(results)
