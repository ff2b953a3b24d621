"""Clients of the actors that replicas share: the wiki's search budget, and the load board.

Each is found by its name, or started by whoever misses it first; replicas go on without a lost one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError

from deployments.admission.load import Load, Others
from deployments.admission.sharing import BoardLost
from deployments.backends.wikipedia.budget import (
    Acquire,
    BudgetLost,
    Landed,
    Reply,
    Report,
    Verdict,
)
from deployments.settings import MediaWikiSettings, RecordSettings

_PATIENCE_S = 2.0
"""An actor silent for longer is asked whether it lives."""

_START_TIMEOUT_S = 60.0


class ActorLost(Exception):
    """The actor cannot be reached, or is still starting."""


class SharedActor:
    """A named actor that outlives every replica; asked only while it answers."""

    def __init__(self, name: str, actor_class: type, *arguments: Any) -> None:
        """Finds the actor, or starts it with the arguments, on the first call."""
        self._name, self._class, self._arguments = name, actor_class, arguments
        self._connecting: asyncio.Future[Any] | None = None

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """How to find the actor travels; a connection, begun or made, does not.

        Serve pickles what a replica was made of once more after it has begun, to look for handles.
        """
        return SharedActor, (self._name, self._class, *self._arguments)

    async def ask(self, method: str, *messages: object) -> Any:
        """The reply of one of its methods; raises ActorLost."""
        try:
            actor = await self._connected()
            return await _answered(actor, _method(actor, method).remote(*messages))
        except (TimeoutError, RayError) as error:
            # also an error inside the actor: one of another release may not understand us
            self._connecting = None
            raise ActorLost(type(error).__name__) from error

    async def tell(self, method: str, *messages: object) -> None:
        """Send what needs no reply, at half the cost of asking; raises ActorLost if it cannot be sent.

        Whether it arrived is not known: an actor that is lost just then shows at the next question.
        """
        try:
            _method(await self._connected(), method).remote(*messages)
        except (TimeoutError, RayError) as error:
            self._connecting = None
            raise ActorLost(type(error).__name__) from error

    async def _connected(self) -> Any:
        """The actor; raises ActorLost while it is still starting, so that nobody waits for that."""
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
        done, _ = await asyncio.wait({self._connecting}, timeout=_PATIENCE_S)
        if not done:
            raise ActorLost("it is starting")
        connecting = self._connecting
        if connecting.exception() is not None:
            self._connecting = None  # whoever asks next tries anew
        return connecting.result()

    async def _connect(self) -> Any:
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                actor = await asyncio.to_thread(self._found_or_started)
                await _method(actor, "adopt").remote(*self._arguments)
                return actor
        except (TypeError, ValueError) as error:  # Ray's, of a name just lost, or of another release
            raise ActorLost(str(error)) from error

    def _found_or_started(self) -> Any:
        # detached, by name: it outlives every replica, and a second application finds the same one;
        # not restarted by Ray: whoever misses it starts it anew, with the limits of today
        actor: Any = ray.remote(self._class)
        return actor.options(
            name=self._name,
            namespace="crag-serve",
            lifetime="detached",
            get_if_exists=True,
            max_concurrency=10_000,  # those who wait must never keep a report out
            num_cpus=0,
        ).remote(*self._arguments)


class SearchBudgetClient:
    """The SearchBudget in the actor of the wiki's host, of which a cluster has one."""

    def __init__(self, actor_class: type, settings: MediaWikiSettings) -> None:
        """`actor_class` is SearchBudgetActor."""
        self._actor = SharedActor(f"search-budget-{settings.budget_name}", actor_class, settings)

    async def acquire(self, ask: Acquire) -> Reply:
        """The answer, or the right to fetch it; else why not."""
        reply: Reply = await self._ask("acquire", ask)
        return reply

    async def land(self, landed: Landed) -> None:
        """What a leased request brought, to be remembered."""
        try:
            await self._actor.tell("land", landed)
        except ActorLost as error:
            raise BudgetLost(str(error)) from error

    async def report(self, report: Report) -> Verdict:
        """How a leased request failed, and what follows."""
        verdict: Verdict = await self._ask("report", report)
        return verdict

    async def recall_stale(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The answers among these that may stand in for a wiki that has failed."""
        found: Mapping[bytes, bytes] = await self._ask("recall_stale", keys)
        return found

    async def _ask(self, method: str, message: object) -> Any:
        try:
            return await self._actor.ask(method, message)
        except ActorLost as error:
            raise BudgetLost(str(error)) from error


class LoadBoardClient:
    """The board of this application's ingresses; called in a replica of them."""

    def __init__(self, actor_class: type) -> None:
        """`actor_class` is LoadBoard."""
        self._class = actor_class
        self._actor: SharedActor | None = None

    async def exchange(self, load: Load) -> Others:
        """Leave this ingress's load, and take that of all the others; raises BoardLost."""
        replica = serve.get_replica_context()
        if self._actor is None:
            self._actor = SharedActor(f"load-board-{replica.app_name}", self._class)
        try:
            others: Others = await self._actor.ask("exchange", replica.replica_id.unique_id, load)
        except ActorLost as error:
            raise BoardLost(str(error)) from error
        return others


class RecordStoreClient:
    """The decision records in the application's actor; without it none are kept, and none found."""

    def __init__(self, actor_class: type, settings: RecordSettings) -> None:
        """`actor_class` is RecordStore."""
        self._class, self._settings = actor_class, settings
        self._actor: SharedActor | None = None

    async def keep(self, answer_id: str, record: bytes) -> None:
        """Keep a record, if the actor can be reached."""
        with suppress(ActorLost):
            await self._store.ask("keep", answer_id, record)

    async def find(self, answer_id: str) -> bytes | None:
        """The record, if the actor can be reached and still has it."""
        with suppress(ActorLost):
            found: bytes | None = await self._store.ask("find", answer_id)
            return found
        return None

    @property
    def _store(self) -> SharedActor:
        if self._actor is None:
            name = f"records-{serve.get_replica_context().app_name}"
            self._actor = SharedActor(name, self._class, self._settings)
        return self._actor


def _method(actor: Any, name: str) -> Any:
    method = getattr(actor, name, None)
    if method is None:
        raise ActorLost(f"it is of another release, which has no {name}")
    return method


async def _answered(actor: Any, reply: Any) -> Any:
    """An actor's reply, however long it takes while the actor lives; raises TimeoutError if not."""
    answer: asyncio.Future[Any] = asyncio.wrap_future(reply.future())
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # may go unread
    try:
        while True:
            done, _ = await asyncio.wait({answer}, timeout=_PATIENCE_S)
            if done:
                return answer.result()
            async with asyncio.timeout(_PATIENCE_S):
                await actor.ping.remote()  # does it wait, or is it gone?
    except (asyncio.CancelledError, TimeoutError):
        ray.cancel(reply)  # else it would keep its place in the line
        raise
