"""A burst of twice what may wait: whether those refused find room when they were told to come back."""

import asyncio
import time
from dataclasses import dataclass

import aiohttp

_DEADLINE_S = 300.0
_MOST = 2_000


@dataclass(frozen=True, slots=True)
class Return:
    """One request that was refused, came back when it was told, and what it found."""

    told_s: float
    status: int


@dataclass(frozen=True, slots=True)
class Returns:
    """What became of the burst."""

    admitted: int
    refused: int
    found_room: int
    longest_told_s: float
    all_done_s: float
    """Until the last of the burst was answered."""
    at_best_s: float
    """What the answered ones take at the server's peak."""


async def coming_back(url: str, peak_per_s: float, max_wait_s: float, body: bytes) -> Returns:
    """Send the burst; who is refused comes back once, just when it was told."""
    burst = max(8, min(_MOST, round(2 * peak_per_s * max_wait_s)))
    started_s = time.monotonic()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=_DEADLINE_S),
        headers={"content-type": "application/json", "x-crag-timeout-s": f"{_DEADLINE_S:g}"},
    ) as session:
        ended = await asyncio.gather(*(_one(session, f"{url}/v1/answer", body) for _ in range(burst)))
    returns = [each for each in ended if each is not None]
    found_room = sum(each.status == 200 for each in returns)
    answered = burst - len(returns) + found_room
    return Returns(
        admitted=burst - len(returns),
        refused=len(returns),
        found_room=found_room,
        longest_told_s=max((each.told_s for each in returns), default=0.0),
        all_done_s=time.monotonic() - started_s,
        at_best_s=answered / peak_per_s,
    )


async def _one(session: aiohttp.ClientSession, url: str, body: bytes) -> Return | None:
    async with session.post(url, data=body) as reply:
        await reply.read()
        if reply.status != 429:
            return None
        told_s = float(reply.headers["Retry-After"])
    await asyncio.sleep(told_s)
    async with session.post(url, data=body) as reply:
        await reply.read()
        return Return(told_s, reply.status)
