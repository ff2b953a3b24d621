"""Look-ups of titles, gathered for a moment and sent together."""

import asyncio
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.budget import Entry, Known, KnownParts, SearchBudget
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.query_call import Found, Shape, too_late
from deployments.backends.wikipedia.query_key import query_key
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings

_GATHER_S = 0.005
TITLES_PER_REQUEST = 20
"""As many introductions as one request brings."""

_LONGEST_TITLE_BYTES = 255
_Waiting = Mapping[str, tuple["asyncio.Future[Known]", float]]
"""The titles of a batch, with who waits for each, and until when on the loop's clock."""

_IN_NO_TITLE = re.compile(r"[#<>\[\]{}|\x00-\x1f\x7f\ufffd\ud800-\udfff]|%[0-9A-Fa-f]{2}")


class TitleBatcher:
    """Answers one title at a time and asks for twenty: 48 look-ups at once are three requests.

    Each title's part of an answer is remembered by itself.
    """

    def __init__(
        self,
        settings: MediaWikiSettings,
        transport: PooledTransport,
        budget: SearchBudget,
        parameters: Mapping[str, str],
    ) -> None:
        """`parameters` are those of every request, without `titles`; `redirects` among them."""
        self._api_url = settings.api_url
        self._host = settings.host
        self._transport = transport
        self._budget = budget
        self._parameters = parameters
        self._waiting: dict[str, tuple[asyncio.Future[Known], float]] = {}
        self._sent: dict[str, asyncio.Future[Known]] = {}
        self._batches: set[asyncio.Task[None]] = set()

    async def look_up(self, title: str, *, timeout_s: float) -> QueryAnswer:
        """The wiki's answer about this title alone: its redirects, and its page or none.

        A text that can be no title is answered without a request. Raises SearchFailed.
        """
        title = plain_title(title)
        if not title or _IN_NO_TITLE.search(title) or len(title.encode()) > _LONGEST_TITLE_BYTES:
            return QueryAnswer()
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + timeout_s
        future = self._sent.get(title) or self._asked_for(title, give_up_at_s)
        try:
            async with asyncio.timeout_at(give_up_at_s):
                known = await asyncio.shield(future)
        except TimeoutError as error:
            raise too_late(self._host, timeout_s).error() from error
        return QueryAnswer.read(known.body, is_stale=known.is_stale)

    def _asked_for(self, title: str, give_up_at_s: float) -> "asyncio.Future[Known]":
        if not self._waiting:
            batch = asyncio.ensure_future(self._send_together())
            self._batches.add(batch)
            batch.add_done_callback(self._batches.discard)
        new: asyncio.Future[Known] = asyncio.get_running_loop().create_future()
        future, until_s = self._waiting.get(title, (new, 0.0))
        self._waiting[title] = future, max(until_s, give_up_at_s)
        return future

    async def _send_together(self) -> None:
        await asyncio.sleep(_GATHER_S)
        waiting, self._waiting = self._waiting, {}
        for title, (future, _) in waiting.items():
            self._sent[title] = future
            future.add_done_callback(partial(self._answered, title))
        batches = ({title: waiting[title] for title in titles} for titles in batched(list(waiting)))
        await asyncio.gather(*(self._look_up_together(batch) for batch in batches))

    def _answered(self, title: str, _: "asyncio.Future[Known]") -> None:
        del self._sent[title]

    async def _look_up_together(self, waiting: _Waiting) -> None:
        """Titles of one request; where some are known already, the others are asked for after them."""
        keys = {title: self._key(title) for title in waiting}
        try:
            known = await self._fetch(waiting, list(keys.values()))
            if isinstance(known, KnownParts):
                _settle_known(waiting, keys, known.bodies)
                waiting = {title: asked for title, asked in waiting.items() if not asked[0].done()}
                if waiting:
                    await self._fetch(waiting, parts=())
        except SearchFailed as error:  # what is known of old stands in; the others have the error
            stale = await self._budget.recall_stale([keys[title] for title in waiting])
            _settle_known(waiting, keys, stale, is_stale=True)
            for future, _ in waiting.values():
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # counts as retrieved: its callers may have left

    async def _fetch(self, waiting: _Waiting, parts: Sequence[bytes]) -> Found:
        """Ask the wiki, and settle all who wait; or bring what is known of these parts."""
        until_s = max(give_up_at_s for _, give_up_at_s in waiting.values())
        timeout_s = until_s - asyncio.get_running_loop().time()
        parameters = {**self._parameters, "titles": "|".join(waiting)}

        def split(body: bytes, _: QueryAnswer) -> Sequence[Entry]:
            answer = json.loads(body)
            entries = []
            for title, asked in waiting.items():
                part = part_of(answer, title)
                text = json.dumps(part).encode()
                _settle(asked[0], Known(text))
                entries.append(Entry(self._key(title), text, is_negative=not _has_page(part)))
            return entries

        return await self._transport.fetch(parameters, Shape(split, parts=parts), timeout_s=timeout_s)

    def _key(self, title: str) -> bytes:
        return query_key(self._api_url, {**self._parameters, "titles": title})


def plain_title(title: str) -> str:
    """A title as the wiki echoes it: in NFC, blanks and underscores single.

    >>> plain_title(" rMS__Titanic ")
    'rMS Titanic'
    """
    return " ".join(unicodedata.normalize("NFC", title).replace("_", " ").split())


def batched(titles: Sequence[str]) -> Iterable[Sequence[str]]:
    """The titles, as many at a time as one request takes."""
    starts = range(0, len(titles), TITLES_PER_REQUEST)
    return (titles[start : start + TITLES_PER_REQUEST] for start in starts)


def part_of(answer: Mapping[str, Any], title: str) -> dict[str, Any]:
    """What an answer about many titles says of one: renamings in order, then its page if it has one.

    Redirects are listed link by link and may lead in a circle, which then has no page.
    """
    query = answer.get("query", {})
    renamed: dict[str, list[Mapping[str, Any]]] = {"normalized": [], "redirects": []}
    name, seen = title, {title}
    for kind, steps in renamed.items():
        step_from = {step["from"]: step for step in query.get(kind, ())}
        while name in step_from:
            steps.append(step_from[name])
            name = step_from[name]["to"]
            if name in seen:
                break
            seen.add(name)
    pages = [page for page in query.get("pages", ()) if page.get("title") == name]
    return {"batchcomplete": True, "query": {**renamed, "pages": pages}}


def _has_page(part: Mapping[str, Any]) -> bool:
    return any("pageid" in page for page in part["query"]["pages"])


def _settle_known(
    waiting: _Waiting,
    keys: Mapping[str, bytes],
    bodies: Mapping[bytes, bytes],
    *,
    is_stale: bool = False,
) -> None:
    for title, (future, _) in waiting.items():
        if (body := bodies.get(keys[title])) is not None:
            _settle(future, Known(body, is_stale=is_stale))


def _settle(future: "asyncio.Future[Known]", known: Known) -> None:
    if not future.done():
        future.set_result(known)
