"""One call of a deployment's handle: in time, made again where its replica is lost, its errors ours.

Each call is bounded by the request's deadline, not begun where less time is left than such calls lately
took at least, and made again where its replica is lost before it has answered. What Ray raises becomes
one of the core's errors here, so that neither core nor API ever sees Ray.
"""

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from grpc.aio import AioRpcError
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    RayActorError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from crag_core.context import RequestContext
from crag_core.errors import Overloaded, StageTimedOut, StageUnavailable
from crag_core.pace import Pace
from crag_core.types import PipelineName, Stage
from deployments.messages import Message
from deployments.observability.stage_times import calling
from deployments.retries import RetryBudget

_logger = logging.getLogger(__name__)

_LOST = (
    DeploymentUnavailableError,
    RayActorError,
    ObjectLostError,
    NodeDiedError,
    WorkerCrashedError,
    AioRpcError,
)
"""What Ray raises when a replica, its worker or its node has gone; the last in its throughput mode."""

_CANCELLED = (asyncio.CancelledError, TaskCancelledError)
"""What a call raises that was cancelled; the second is Ray's own word for it, Serve's is of its kind."""

_HOLD_S = 30.0
"""A call that no replica has taken for so long is given up: longer than most replicas take to start."""


class _HoldSpent(Exception):
    """Why a call was given up that no replica took."""


_retries = RetryBudget()

_paces: defaultdict[str, Pace] = defaultdict(Pace)
"""What the calls of this process lately took, by stage."""


async def call(
    ctx: RequestContext, stage: Stage, method: DeploymentHandle[Any], request: Message
) -> Any:
    """A replica's reply; that of another one, where the first is lost."""
    _retries.called()
    for attempts in itertools.count(1):
        try:
            with calling(stage):
                return await _called_once(ctx, stage, method, request)
        except StageUnavailable as error:
            request = await _to_send_again(ctx, stage, request, error, attempts)


async def stream(
    ctx: RequestContext, stage: Stage | PipelineName, method: DeploymentHandle[Any], request: Message
) -> AsyncGenerator[Any]:
    """A replica's pieces; those of another one, where the first is lost before it gave any."""
    _retries.called()
    for attempts in itertools.count(1):
        has_begun = False
        try:
            with calling(stage) as called:
                async with aclosing(_streamed_once(ctx, stage, method, request)) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        called.is_whole = getattr(piece, "finish_reason", None) is not None
                        yield piece
            return
        except StageUnavailable as error:
            if has_begun:
                raise
            request = await _to_send_again(ctx, stage, request, error, attempts)


async def _to_send_again(
    ctx: RequestContext,
    stage: Stage | PipelineName,
    request: Message,
    error: StageUnavailable,
    attempts: int,
) -> Message:
    """The request with the time that is left, after a pause; raises the error when it is not sent again.

    A stage's replica may say of itself that its engine is dead. A graph says so only of a stage, whose
    calls it has made again by itself.
    """
    # what is raised here has a cause, what comes from a replica has left its own behind
    says_so_itself = isinstance(stage, Stage) and error.__cause__ is None
    pause_s = _retries.pause_s(attempts) if says_so_itself or _is_lost(error.__cause__) else None
    if pause_s is None or pause_s >= ctx.remaining_s():
        raise error
    _logger.warning("request %s: %s; asking another replica", ctx.request_id, error.message)
    await asyncio.sleep(pause_s)
    return request.sent_again(ctx)


async def _called_once(
    ctx: RequestContext, stage: Stage, method: DeploymentHandle[Any], request: Message
) -> Any:
    started_s = time.monotonic()
    with _translated(stage):
        ctx.require_time(stage, _paces[stage].least_s())
        async with asyncio.timeout(ctx.remaining_s()):
            response: Any = method.remote(request)
            try:
                with _taken_in_time(stage, response):
                    reply = await response
            except asyncio.CancelledError:  # Ray would let the call run on
                response.cancel()
                raise
    _paces[stage].observe(time.monotonic() - started_s)
    return reply


async def _streamed_once(
    ctx: RequestContext, stage: Stage | PipelineName, method: DeploymentHandle[Any], request: Message
) -> AsyncGenerator[Any]:
    started_s, is_finished = time.monotonic(), False
    # a graph in a hurry gives cheaper answers; only a stage has nothing less to offer
    ctx.require_time(stage, _paces[stage].least_s() if isinstance(stage, Stage) else 0.0)
    pieces: Any = method.options(stream=True).remote(request)
    try:
        with _taken_in_time(stage, pieces) as taken:
            while True:
                with _translated(stage):
                    try:
                        async with asyncio.timeout(ctx.remaining_s()):
                            piece = await anext(pieces)
                    except StopAsyncIteration:
                        is_finished = True
                        _paces[stage].observe(time.monotonic() - started_s)
                        return
                taken.cancel()
                yield piece
    finally:  # the reader left early, or time is up: stop the work behind the stream
        if not is_finished:
            pieces.cancel()


@contextmanager
def _taken_in_time(stage: Stage | PipelineName, response: Any) -> Iterator[asyncio.TimerHandle]:
    """Give up a call that no replica takes within the hold, and say so: one may be starting for long.

    A call that waits like this is what starts the first replica of a deployment at zero.
    """
    given_up = False

    def give_up() -> None:
        nonlocal given_up
        # Serve has no public word for "taken"; a replica in this process has taken it at once
        taken = getattr(response, "_replica_result_future", None)
        if taken is not None and not taken.done():
            given_up = True
            response.cancel()

    timer = asyncio.get_running_loop().call_later(_HOLD_S, give_up)
    try:
        yield timer
    except (*_CANCELLED, StageUnavailable):
        task = asyncio.current_task()
        if not given_up or (task is not None and task.cancelling()):
            raise
        raise StageUnavailable(
            f"no replica of {stage} took the request within {_HOLD_S:g} s: it may just be starting, "
            "try again later"
        ) from _HoldSpent()
    finally:
        timer.cancel()


def _is_lost(cause: BaseException | None) -> bool:
    return isinstance(cause, (*_LOST, *_CANCELLED))


@contextmanager
def _translated(stage: Stage | PipelineName) -> Iterator[None]:
    try:
        yield
    except _CANCELLED as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # nobody cancelled us: the replica or its node went away under the call
        raise StageUnavailable(f"{stage} was cancelled by its replica") from error
    except TimeoutError as error:
        raise StageTimedOut(f"{stage} did not finish before the deadline") from error
    except BackPressureError as error:
        raise Overloaded(f"too many requests are waiting for {stage}: try again later") from error
    except _LOST as error:
        raise StageUnavailable(f"{stage} has no live replica at the moment") from error
