"""Replicas that die under calls, on a real cluster: what has not begun is asked of another one."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator, Sequence

import pytest
import ray
from ray import serve
from ray.serve.config import ProxyLocation

from crag_core.context import RequestContext
from crag_core.errors import StageUnavailable
from crag_core.types import Completion, Document, Prompt, Sampling
from deployments import calls
from deployments.clients import GeneratorClient, RetrieverClient
from deployments.messages import GenerateRequest, RetrieveRequest
from deployments.serve_state import end_replica

pytestmark = pytest.mark.serve


class Stage:
    """Takes its time, and says in which process."""

    async def retrieve(self, request: RetrieveRequest) -> Sequence[Document]:
        await asyncio.sleep(0.5 if request.query == "slow" else 0)
        return [Document(str(os.getpid()), request.query)]

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Completion]:
        await asyncio.sleep(0.5)
        yield Completion(str(os.getpid()))
        await asyncio.sleep(0.5)
        yield Completion("", "stop")


class Doomed:
    """Ends itself whenever it is asked."""

    async def retrieve(self, request: RetrieveRequest) -> Sequence[Document]:
        end_replica()
        return []


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(proxy_location=ProxyLocation.Disabled)
    yield
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(params=[True, False], ids=["through Ray's actors", "over gRPC"])
def by_reference(request: pytest.FixtureRequest) -> bool:
    """How calls travel; over gRPC in Ray's throughput mode, which the application is served in."""
    return bool(request.param)


def deployed(
    by_reference: bool, kind: type, replicas: int, **options: object
) -> "serve.handle.DeploymentHandle[object]":
    placed = {"num_replicas": replicas, "ray_actor_options": {"num_cpus": 0.1}, **options}
    deployment = serve.deployment(name=kind.__name__, **placed)(kind)
    handle = serve.run(deployment.bind(), name=kind.__name__, route_prefix=None)
    return handle.options(_by_reference=by_reference)


def context() -> RequestContext:
    return RequestContext.starting_now("r", 60.0)


async def processes(client: RetrieverClient, count: int) -> list[int]:
    """The processes that answer, once there are so many."""
    found: set[int] = set()
    async with asyncio.timeout(120):
        while len(found) < count:
            answers = await asyncio.gather(*(client.retrieve(context(), "", limit=1) for _ in range(10)))
            found |= {int(answer[0].id) for answer in answers}
    return sorted(found)


async def test_calls_that_a_killed_replica_held_are_answered_by_another(by_reference: bool) -> None:
    handle = deployed(by_reference, Stage, 2)
    retriever, generator = RetrieverClient(handle), GeneratorClient(handle)
    first, second = await processes(retriever, 2)
    asked = [asyncio.ensure_future(retriever.retrieve(context(), "slow", limit=1)) for _ in range(20)]
    streams = [generator.generate(context(), Prompt(()), Sampling(10)) for _ in range(20)]
    begun = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await asyncio.sleep(0.2)
    os.kill(first, signal.SIGKILL)
    answers, pieces = await asyncio.gather(*asked), await asyncio.gather(*begun)
    assert {int(answer[0].id) for answer in answers} == {second}
    assert {int(piece.text) for piece in pieces} == {second}
    rest = await asyncio.gather(*(anext(stream) for stream in streams))
    assert {piece.finish_reason for piece in rest} == {"stop"}


async def test_a_stream_that_has_begun_ends_with_an_error(by_reference: bool) -> None:
    generator = GeneratorClient(deployed(by_reference, Stage, 1))
    stream = generator.generate(context(), Prompt(()), Sampling(10))
    first = await anext(stream)
    os.kill(int(first.text), signal.SIGKILL)
    with pytest.raises(StageUnavailable):
        await anext(stream)


async def test_a_replica_that_ends_itself_is_not_asked_for_ever(by_reference: bool) -> None:
    client = RetrieverClient(deployed(by_reference, Doomed, 1))
    with pytest.raises(StageUnavailable):
        await client.retrieve(context(), "", limit=1)


async def test_a_call_that_no_replica_takes_is_given_up_and_wakes_one(
    monkeypatch: pytest.MonkeyPatch, by_reference: bool
) -> None:
    scaling = {"min_replicas": 0, "initial_replicas": 0, "max_replicas": 1, "downscale_delay_s": 600}
    handle = deployed(by_reference, Stage, None, num_replicas=None, autoscaling_config=scaling)  # type: ignore[arg-type]
    client = RetrieverClient(handle)
    monkeypatch.setattr(calls, "_HOLD_S", 0.05)
    with pytest.raises(StageUnavailable, match="may just be starting"):
        await client.retrieve(context(), "", limit=1)
    monkeypatch.setattr(calls, "_HOLD_S", 60.0)
    assert await client.retrieve(context(), "", limit=1)
