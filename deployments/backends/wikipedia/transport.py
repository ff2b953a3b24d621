"""Queries to a wiki as if it were reliable: shared, paced, retried, remembered."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Protocol

from crag_core.context import Lane
from deployments.backends.wikipedia.budget import Entry, KnownParts, SearchBudget, Verdict
from deployments.backends.wikipedia.mediawiki_api import Page, QueryAnswer, names_a_page
from deployments.backends.wikipedia.query_call import Fetched, Found, QueryCall, Shape, too_late
from deployments.backends.wikipedia.query_key import query_key
from deployments.backends.wikipedia.session import Connection
from deployments.backends.wikipedia.single_flight import Deadline, SingleFlight
from deployments.settings import MediaWikiSettings


class QueryTransport(Protocol):
    """What the search strategies ask: one wiki."""

    @property
    def host(self) -> str:
        """The wiki's host, on which the addresses of its pages must lie."""
        ...

    async def query(
        self, parameters: Mapping[str, str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> QueryAnswer:
        """The answer to these parameters, at the latest after `timeout_s`; raises SearchFailed."""
        ...

    async def titled(
        self, titles: Sequence[str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> Sequence[Page | None]:
        """The page of each title with its lead, None where there is none; raises SearchFailed."""
        ...


class PooledTransport:
    """Queries over one connection of this process and a budget that many processes share."""

    def __init__(
        self, settings: MediaWikiSettings, connection: Connection, budget: SearchBudget
    ) -> None:
        """Sends nothing yet."""
        self._settings = settings
        self._connection = connection
        self._budget = budget
        self._flights: SingleFlight[tuple[bytes, Lane], Found] = SingleFlight()
        self._loose_ends: set[asyncio.Task[Verdict]] = set()

    async def query(
        self, parameters: Mapping[str, str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> QueryAnswer:
        """The wiki's answer within `timeout_s`, or within the settings' limit for one look-up.

        Equal queries at the same time become one request. Raises SearchFailed, or the child of it that
        says whether budget, wiki or time gave out.
        """
        key = query_key(self._settings.api_url, parameters)

        def whole(body: bytes, answer: QueryAnswer) -> Sequence[Entry]:
            return [Entry(key, body, is_negative=not names_a_page(answer))]

        found = await self.fetch(parameters, Shape(whole, key), timeout_s=timeout_s, lane=lane)
        match found:
            case Fetched():
                return found.answer
            case KnownParts():
                raise TypeError("parts were known of an answer that has none")
        return QueryAnswer.read(found.body, is_stale=found.is_stale)

    async def fetch(
        self,
        parameters: Mapping[str, str],
        shape: Shape,
        *,
        timeout_s: float,
        lane: Lane = Lane.INTERACTIVE,
    ) -> Found:
        """As `query`, but the answer as JSON, remembered in a shape of the caller's."""
        limit_s = max(0.0, min(timeout_s, self._settings.timeout_s))
        at_s = asyncio.get_running_loop().time() + limit_s
        key = shape.key or uuid.uuid4().bytes  # an answer in parts is nobody else's

        async def work(deadline: Deadline) -> Found:
            call = QueryCall(
                settings=self._settings,
                connection=self._connection,
                budget=self._budget,
                loose_ends=self._loose_ends,
                parameters=parameters,
                shape=shape,
                lane=lane,
                deadline=deadline,
                limit_s=limit_s,
            )
            return await call.answer()

        try:
            return await self._flights.join((key, lane), at_s, work)
        except TimeoutError as error:
            raise too_late(self._settings.host, limit_s).error() from error

    async def close(self) -> None:
        """Close the connections, once what had to be reported is reported."""
        if self._loose_ends:
            await asyncio.wait(self._loose_ends, timeout=1.0)
        await self._connection.close()
