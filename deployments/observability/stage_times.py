"""Handle calls and the work behind them, timed on both sides."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from crag_core.context import RequestContext
from crag_core.errors import CragError
from deployments.observability.meter import meter
from deployments.observability.metrics.answers import (
    CALL_SECONDS,
    CALLS_FAILED,
    WAIT_SECONDS,
    WORK_SECONDS,
)
from deployments.observability.metrics.labels import CANCELLED, OK
from deployments.observability.tracing import span


class Work:
    """A replica's work on one call; `ctx` is for what it asks of others."""

    __slots__ = ("ctx", "waited_s")

    def __init__(self, ctx: RequestContext) -> None:
        """Has not waited yet."""
        self.ctx = ctx
        self.waited_s: float | None = None
        """Seconds of it that were spent waiting for a batch, a device or a thread, where it has to."""


@contextmanager
def working(ctx: RequestContext, stage: str) -> Iterator[Work]:
    """Time a replica's work on a call, its wait apart; a span of its trace."""
    started = time.perf_counter()
    work = Work(ctx)
    try:
        with span(ctx, stage) as work.ctx:
            yield work
    finally:
        waited_s = work.waited_s or 0.0
        if work.waited_s is not None:
            meter().observe(WAIT_SECONDS, waited_s, stage=stage)
        meter().observe(WORK_SECONDS, time.perf_counter() - started - waited_s, stage=stage)


class Call:
    """A handle call, as its caller sees it."""

    __slots__ = ("is_whole",)

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.is_whole = False
        """Whether the last piece of a stream has come: who closes it then has not left early."""


@contextmanager
def calling(stage: str) -> Iterator[Call]:
    """Time a handle call, and count one that does not end well."""
    call, outcome, started = Call(), CragError.code, time.perf_counter()
    try:
        yield call
        outcome = OK
    except CragError as error:
        outcome = error.code
        raise
    except asyncio.CancelledError:
        outcome = CANCELLED
        raise
    except GeneratorExit:
        outcome = OK if call.is_whole else CANCELLED
        raise
    finally:
        meter().observe(CALL_SECONDS, time.perf_counter() - started, stage=stage)
        if outcome != OK:
            meter().count(CALLS_FAILED, stage=stage, outcome=outcome)
