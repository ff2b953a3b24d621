"""Calls of handles: what is made again where a replica is lost, and what is not."""

import asyncio
import concurrent.futures
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from ray.exceptions import ActorDiedError, RayTaskError
from ray.serve.exceptions import BackPressureError, RequestCancelledError

from crag_core.context import RequestContext
from crag_core.errors import EvaluationFailed, Overloaded, StageTimedOut, StageUnavailable
from crag_core.pace import Pace
from crag_core.protocols import Ask
from crag_core.types import Completion, PipelineName, Prompt, Question, Sampling, Stage
from deployments import calls
from deployments.clients import GeneratorClient, PipelineClient, RetrieverClient
from deployments.messages import Message
from deployments.retries import RetryBudget

Reply = Callable[[], Any]


@dataclass
class FakeResponse:
    """A call that some replica has taken, or none has; it ends as `reply` says."""

    reply: Reply
    is_taken: bool = True
    cancelled_as: Callable[[], BaseException] = asyncio.CancelledError
    _replica_result_future: Any = field(default_factory=concurrent.futures.Future)

    def __post_init__(self) -> None:
        if self.is_taken:
            self._replica_result_future.set_result(None)

    def __await__(self) -> Any:
        if not self.is_taken:
            try:
                yield from asyncio.wrap_future(self._replica_result_future).__await__()
            except asyncio.CancelledError:
                raise self.cancelled_as() from None
        return self.reply()

    def __aiter__(self) -> "FakeResponse":
        return self

    async def __anext__(self) -> Any:
        return await self

    def cancel(self) -> None:
        self._replica_result_future.cancel()


@dataclass
class FakeMethod:
    """A handle's method whose calls answer in turn as they are told, the last ones all alike."""

    replies: list[Reply]
    is_taken: bool = True
    cancelled_as: Callable[[], BaseException] = asyncio.CancelledError
    sent: list[Message] = field(default_factory=list)

    def options(self, **_: object) -> "FakeMethod":
        return self

    def remote(self, message: Message) -> FakeResponse:
        self.sent.append(message)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return FakeResponse(reply, self.is_taken, self.cancelled_as)


@dataclass
class Pieces:
    """A stream's items one by one; an exception among them is raised."""

    pieces: list[Any]

    def __call__(self) -> Any:
        if not self.pieces:
            raise StopAsyncIteration
        piece = self.pieces.pop(0)
        if isinstance(piece, Exception):
            raise piece
        return piece


class Handle:
    """Any method of it is the one given."""

    def __init__(self, method: FakeMethod) -> None:
        self._method = method

    def __getattr__(self, name: str) -> FakeMethod:
        return self._method


def raising(error: BaseException) -> Reply:
    def reply() -> Any:
        raise error

    return reply


def dead() -> Exception:
    return ActorDiedError()


def of_replica(error: Exception) -> Exception:
    """An error of ours as Ray raises it on the caller's side."""
    wrapped: Exception = RayTaskError("f", "Traceback", error).as_instanceof_cause()
    return wrapped


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_retries", RetryBudget())
    monkeypatch.setattr(calls, "_paces", defaultdict(Pace))
    monkeypatch.setattr("deployments.retries._FIRST_PAUSE_S", 0.001)


def context(remaining_s: float = 10.0) -> RequestContext:
    return RequestContext.starting_now("r", remaining_s)


async def retrieve(method: FakeMethod, remaining_s: float = 10.0) -> Any:
    return await RetrieverClient(Handle(method)).retrieve(context(remaining_s), "who?", limit=1)  # type: ignore[arg-type]  # fmt: skip


async def generated(method: FakeMethod) -> list[str]:
    client = GeneratorClient(Handle(method))  # type: ignore[arg-type]  # as much of it as is used
    stream = client.generate(context(), Prompt(()), Sampling(10))
    return [piece.text async for piece in stream]


def hung_up() -> Exception:
    """A replica that died in the middle, as a call over gRPC tells it."""
    return AioRpcError(StatusCode.CANCELLED, Metadata(), Metadata())


@pytest.mark.parametrize(
    "lost",
    [
        dead,
        hung_up,
        lambda: of_replica(StageUnavailable("the engine is dead")),
        lambda: StageUnavailable("the engine is dead"),  # as it comes over gRPC
    ],
)
async def test_a_call_whose_replica_is_lost_is_made_again(lost: Callable[[], Exception]) -> None:
    method = FakeMethod([raising(lost()), lambda: ["document"]])
    assert await retrieve(method) == ["document"]
    first, second = (message.context.remaining_s for message in method.sent)
    assert second < first, "the second has the time that is left"


async def test_a_request_that_kills_replicas_does_not_kill_them_all() -> None:
    method = FakeMethod([raising(dead())])
    with pytest.raises(StageUnavailable, match="no live replica"):
        await retrieve(method)
    assert len(method.sent) == 3


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (BackPressureError(num_queued_requests=1, max_queued_requests=1), Overloaded),
        (of_replica(EvaluationFailed("no")), EvaluationFailed),
        (TimeoutError(), StageTimedOut),
    ],
)
async def test_no_other_failure_is_tried_again(error: Exception, raised: type[Exception]) -> None:
    method = FakeMethod([raising(error)])
    with pytest.raises(raised):
        await retrieve(method)
    assert len(method.sent) == 1


async def test_where_everything_fails_retries_do_not_multiply_the_load() -> None:
    calls = 1_000
    method = FakeMethod([raising(dead())])
    for _ in range(calls):
        with pytest.raises(StageUnavailable):
            await retrieve(method)
    assert len(method.sent) < calls * 1.1 + 256 + 1


async def test_a_stream_is_begun_again_only_before_its_first_piece() -> None:
    done = Completion("Paris", "stop")
    again = FakeMethod([Pieces([dead()]), Pieces([done])])
    assert await generated(again) == ["Paris"]
    begun = FakeMethod([Pieces([Completion("Pa"), dead()]), Pieces([done])])
    with pytest.raises(StageUnavailable):
        await generated(begun)
    assert (len(again.sent), len(begun.sent)) == (2, 1)


async def test_a_reader_cancelled_as_a_piece_comes_reads_no_further() -> None:
    async def read() -> None:
        client = GeneratorClient(Handle(FakeMethod([leaving])))  # type: ignore[arg-type]
        async for _ in client.generate(context(), Prompt(()), Sampling(10)):
            await asyncio.Event().wait()

    def leaving() -> Completion:
        reader.cancel()
        return Completion("Paris")

    reader = asyncio.ensure_future(read())
    await asyncio.wait({reader}, timeout=5)
    assert reader.cancelled()


async def test_a_graph_that_lost_a_stage_has_tried_again_itself() -> None:
    method = FakeMethod([Pieces([of_replica(StageUnavailable("no live replica"))]), Pieces([])])
    client = PipelineClient(Handle(method), PipelineName.CRAG)  # type: ignore[arg-type]
    with pytest.raises(StageUnavailable):
        await anext(client.stream(context(), Ask(Question("who?"))))
    assert len(method.sent) == 1


async def test_a_lost_graph_is_asked_again() -> None:
    method = FakeMethod([Pieces([dead()]), Pieces(["Paris"])])
    client = PipelineClient(Handle(method), PipelineName.CRAG)  # type: ignore[arg-type]
    pieces = client.stream(context(), Ask(Question("who?")))
    assert await anext(pieces) == "Paris"


async def test_a_graph_is_asked_however_long_its_answers_took_and_a_stage_is_not() -> None:
    pace = Pace()
    for _ in range(100):
        pace.observe(3.0)
    calls._paces.update({PipelineName.CRAG: pace, Stage.RETRIEVE: pace})
    method = FakeMethod([Pieces(["cheaper"])])
    client = PipelineClient(Handle(method), PipelineName.CRAG)  # type: ignore[arg-type]
    assert await anext(client.stream(context(2.5), Ask(Question("who?")))) == "cheaper"
    with pytest.raises(StageTimedOut, match="lately took"):
        await retrieve(method, 2.5)


@pytest.mark.parametrize("cancelled_as", [asyncio.CancelledError, RequestCancelledError])
@pytest.mark.parametrize("call", [retrieve, generated])
async def test_a_call_that_no_replica_takes_is_given_up_after_the_hold(
    call: Callable[[FakeMethod], Any],
    cancelled_as: Callable[[], BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "_HOLD_S", 0.05)
    method = FakeMethod([lambda: "never"], is_taken=False, cancelled_as=cancelled_as)
    with pytest.raises(StageUnavailable, match="may just be starting"):
        await call(method)
    assert len(method.sent) == 1


async def test_the_hold_does_not_limit_a_call_that_a_replica_has_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "_HOLD_S", 0.0)

    class Slow(FakeResponse):
        def __await__(self) -> Any:
            yield from asyncio.sleep(0.05).__await__()
            return self.reply()

    @dataclass
    class SlowMethod(FakeMethod):
        def remote(self, message: Message) -> Any:
            return Slow(self.replies[0])

    @dataclass
    class InThisProcess(FakeMethod):
        def remote(self, message: Message) -> Any:
            return asyncio.ensure_future(asyncio.sleep(0.05, self.replies[0]()))

    for method in (SlowMethod([lambda: ["document"]]), InThisProcess([lambda: ["document"]])):
        assert await retrieve(method) == ["document"]


async def test_a_caller_who_leaves_while_the_call_waits_is_not_told_that_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = FakeMethod([lambda: "never"], is_taken=False)
    waiting = asyncio.ensure_future(retrieve(method))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
