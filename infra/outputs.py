"""Outputs that wait for other resources without a dependency on them.

The engine skips whatever depends on a resource that was skipped or failed. That is right for a job
that needs another, and wrong for one that merely comes after it.
"""

import asyncio
import warnings
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, NoReturn, TypeVar

import pulumi
from pulumi import Output

T = TypeVar("T")
_REPORTED = 32
"""By this exit status the language host knows that the error was reported.

After any other it adds an error of its own, about a program that exited
(https://github.com/pulumi/pulumi/blob/master/sdk/python/cmd/pulumi-language-python-exec).
"""


def once_ended(results: Iterable[Output[Any]], value: pulumi.Input[str]) -> Output[str]:
    """Return `value` once all `results` are known, or can no longer become known."""

    async def ended() -> None:
        await asyncio.gather(*(result.future() for result in results))

    return Output.all(value, _when_done(ended())).apply(lambda both: str(both[0]))


def exists(resource: pulumi.CustomResource) -> Output[bool]:
    """Return whether a resource was created: one that failed gets no ID."""
    return _when_done(_has_id(resource))


def required(resource: pulumi.CustomResource, otherwise: str) -> Output[list[pulumi.Resource]]:
    """Return what a component depends on that is nothing without `resource`.

    The engine takes no component whose dependency was skipped, and nothing whose provider was: it
    ends the update with an error of its own, which does not name what has failed.

    Args:
        resource: That may fail.
        otherwise: The message with which the program ends, beside the error of what failed.
    """

    async def checked() -> list[pulumi.Resource]:
        # In a preview what is new has no ID yet, and nothing fails.
        if not pulumi.runtime.is_dry_run() and not await _has_id(resource):
            end(otherwise)
        return []

    return _when_done(checked())


async def _has_id(resource: pulumi.CustomResource) -> bool:
    return bool(await resource.id.future())


def _when_done(work: Coroutine[Any, Any, T]) -> Output[T]:
    """Return what `work` comes to, which depends on no resource to the engine."""
    future: Awaitable[T] = asyncio.ensure_future(work)
    return Output.from_input(future)


def end(why: str) -> NoReturn:
    """Report why the program can't go on, and end it with everything that it has begun."""
    pulumi.log.error(why)
    # Python would warn of what Pulumi's SDK has begun and is never awaited.
    warnings.simplefilter("ignore", RuntimeWarning)
    raise SystemExit(_REPORTED)
