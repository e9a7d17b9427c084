"""Values that come later without making one resource depend on another.

The engine skips whatever depends on a resource that was skipped or failed. That is right for a job
that needs another, and wrong for one that merely comes after it.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

import pulumi
from pulumi import Output

T = TypeVar("T")


def once_ended(results: Iterable[Output[Any]], value: pulumi.Input[str]) -> Output[str]:
    """Return `value` once there are all `results`, or it is clear that some never will be."""

    async def ended() -> None:
        await asyncio.gather(*(result.future() for result in results))

    return Output.all(value, _when_done(ended())).apply(lambda both: str(both[0]))


def exists(resource: pulumi.CustomResource) -> Output[bool]:
    """Return whether a resource has come to be: whoever waits for one that failed gets no ID."""

    async def there() -> bool:
        return bool(await resource.id.future())

    return _when_done(there())


def _when_done(work: Coroutine[Any, Any, T]) -> Output[T]:
    """Return what `work` comes to, which depends on no resource to the engine."""
    future: Awaitable[T] = asyncio.ensure_future(work)
    return Output.from_input(future)
