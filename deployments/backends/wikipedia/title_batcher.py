"""Look-ups of titles, gathered for a moment and sent together."""

import asyncio
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.budget import Entry, Known, SearchBudget
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.query_call import too_late
from deployments.backends.wikipedia.query_key import query_key
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings

_GATHER_S = 0.005
TITLES_PER_REQUEST = 20
"""As many introductions as one request brings."""

_LONGEST_TITLE_BYTES = 255
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
        keys = {title: self._key(title) for title in waiting}
        known = await self._budget.recall(list(keys.values()))
        unknown = []
        for title, (future, _) in waiting.items():
            if keys[title] in known:
                _settle(future, Known(known[keys[title]]))
            else:
                unknown.append(title)
        await asyncio.gather(
            *(
                self._fetch(titles, {title: waiting[title] for title in titles})
                for titles in batched(unknown)
            )
        )

    def _answered(self, title: str, _: "asyncio.Future[Known]") -> None:
        del self._sent[title]

    async def _fetch(
        self, titles: Sequence[str], waiting: Mapping[str, tuple["asyncio.Future[Known]", float]]
    ) -> None:
        until_s = max(give_up_at_s for _, give_up_at_s in waiting.values())
        timeout_s = until_s - asyncio.get_running_loop().time()
        parameters = {**self._parameters, "titles": "|".join(titles)}
        try:
            fetched = await self._transport.fetch(parameters, timeout_s=timeout_s, is_shared=False)
        except SearchFailed as error:
            return await self._go_on_after(error, waiting)
        answer = json.loads(fetched.body)  # of the form of a QueryAnswer: the transport refuses others
        parts = {title: part_of(answer, title) for title in titles}
        entries = [
            Entry(self._key(title), json.dumps(part).encode(), is_negative=not _has_page(part))
            for title, part in parts.items()
        ]
        for title, entry in zip(titles, entries, strict=True):
            _settle(waiting[title][0], Known(entry.body))
        await self._budget.remember(entries)

    async def _go_on_after(
        self, error: SearchFailed, waiting: Mapping[str, tuple["asyncio.Future[Known]", float]]
    ) -> None:
        """What is known of old stands in for each title; the others have the error."""
        stale = await self._budget.recall_stale([self._key(title) for title in waiting])
        for title, (future, _) in waiting.items():
            if (body := stale.get(self._key(title))) is not None:
                _settle(future, Known(body, is_stale=True))
            elif not future.done():
                future.set_exception(error)
                future.exception()  # counts as retrieved: its callers may have left

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


def _settle(future: "asyncio.Future[Known]", known: Known) -> None:
    if not future.done():
        future.set_result(known)
