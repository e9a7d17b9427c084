"""A limit for what has none of its own: asking a worker that stands still may take for ever."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def within(seconds: float, what: str, work: Callable[[], Result]) -> Result:
    """Return what `work` returns; in a thread, which TimeoutError leaves behind if it is slow."""
    future = begin(work)
    if not wait([future], seconds).done:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")
    return future.result()


def together(seconds: float, works: Mapping[int, Callable[[], Result]]) -> dict[int, Result]:
    """Do all of `works` side by side; return what those returned that ended well and in time."""
    begun = {key: begin(work) for key, work in works.items()}
    done = wait(begun.values(), seconds).done
    return {
        key: future.result()
        for key, future in begun.items()
        if future in done and future.exception() is None
    }


def begin(work: Callable[[], Result]) -> Future[Result]:
    """Do `work` in a thread that nobody waits for at the end of the process, unlike a pool's."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
