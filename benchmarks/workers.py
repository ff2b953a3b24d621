"""A few at a time: workers that take one thing after the other from a list."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


async def each(items: Iterable[Item], concurrency: int, work: Callable[[Item], Awaitable[None]]) -> None:
    """Do `work` for every item, `concurrency` at a time; the first error ends all, and is raised."""
    waiting = iter(list(items))

    async def worker() -> None:
        for item in waiting:  # one iterator for all workers: each item is taken once
            await work(item)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(worker())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
