"""Look-ups of titles, gathered for a moment and sent together."""

import asyncio
import json
import re
import unicodedata
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.budget import Entry, Known, KnownParts, SearchBudget
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.backends.wikipedia.query_call import Found, Shape, too_late
from deployments.backends.wikipedia.query_key import query_key
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings

Title = TypeVar("Title")

_GATHER_S = 0.005
TITLES_PER_REQUEST = 20
"""As many introductions as one request brings."""

_LONGEST_TITLE_BYTES = 255
_IN_NO_TITLE = re.compile(r"[#<>\[\]{}|\x00-\x1f\x7f\ufffd\ud800-\udfff]|%[0-9A-Fa-f]{2}")


@dataclass(eq=False, slots=True)
class _Wanted:
    """A title that somebody waits for: until when on the loop's clock, and how many do."""

    title: str
    key: bytes
    until_s: float
    callers: int = 0
    batch: "_Batch | None" = None
    known: "asyncio.Future[Known]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def settle(self, known: Known) -> None:
        """Tell those who wait, if nobody has."""
        if not self.known.done():
            self.known.set_result(known)

    def fail(self, error: BaseException) -> None:
        """Tell those who wait that there is no answer, if nobody has given one."""
        if not self.known.done():
            self.known.set_exception(error)
            self.known.exception()  # counts as retrieved: its callers may have left

    def leave(self) -> None:
        """One caller less; what nobody waits for is not asked for, or no longer."""
        self.callers -= 1
        if not self.callers and not self.known.done():
            self.known.cancel()
            if self.batch is not None:
                self.batch.ends_unless_wanted()


@dataclass(eq=False, slots=True)
class _Batch:
    """Titles that are asked for together."""

    titles: Sequence[_Wanted]
    task: "asyncio.Task[None] | None" = None

    @property
    def open(self) -> Sequence[_Wanted]:
        """Those that still wait."""
        return [wanted for wanted in self.titles if not wanted.known.done()]

    def settle(self, bodies: Mapping[bytes, bytes], *, is_stale: bool = False) -> None:
        """Give each title what is known by its key."""
        for wanted in self.titles:
            if (body := bodies.get(wanted.key)) is not None:
                wanted.settle(Known(body, is_stale=is_stale))

    def ends_unless_wanted(self) -> None:
        """Stop asking once the last caller has left."""
        if self.task is not None and not self.open:
            self.task.cancel()

    def ended(self, task: "asyncio.Task[None]") -> None:
        """Nobody is left waiting, however the work ended."""
        error = None if task.cancelled() else task.exception()
        for wanted in self.open:
            wanted.fail(error or SearchFailed("a look-up of titles was given up"))


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
        self._wanted: dict[str, _Wanted] = {}
        """Every title that somebody waits for."""
        self._gathering: list[_Wanted] = []
        """Those of them that the next requests will ask for."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def look_up(self, title: str, *, timeout_s: float) -> QueryAnswer:
        """The wiki's answer about this title alone: its redirects, and its page or none.

        A text that can be no title is answered without a request. Raises SearchFailed.
        """
        title = plain_title(title)
        if not title or _IN_NO_TITLE.search(title) or len(title.encode()) > _LONGEST_TITLE_BYTES:
            return QueryAnswer()
        give_up_at_s = asyncio.get_running_loop().time() + timeout_s
        wanted = self._asked_for(title, give_up_at_s)
        wanted.callers += 1
        try:
            async with asyncio.timeout_at(give_up_at_s):
                known = await asyncio.shield(wanted.known)
        except TimeoutError as error:
            raise too_late(self._host, timeout_s).error() from error
        finally:
            wanted.leave()
        return QueryAnswer.read(known.body, is_stale=known.is_stale)

    def _asked_for(self, title: str, until_s: float) -> _Wanted:
        wanted = self._wanted.get(title)
        if wanted is None or wanted.known.done():
            if not self._gathering:
                self._run(self._send_together())
            wanted = self._wanted[title] = _Wanted(title, self._key(title), until_s)
            self._gathering.append(wanted)
            wanted.known.add_done_callback(partial(self._forget, wanted))
        elif wanted.batch is None:
            wanted.until_s = max(wanted.until_s, until_s)
        return wanted

    def _forget(self, wanted: _Wanted, _: object) -> None:
        if self._wanted.get(wanted.title) is wanted:
            del self._wanted[wanted.title]

    def _run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _send_together(self) -> None:
        await asyncio.sleep(_GATHER_S)
        gathered, self._gathering = self._gathering, []
        for titles in batched([wanted for wanted in gathered if not wanted.known.done()]):
            batch = _Batch(titles)
            for wanted in titles:
                wanted.batch = batch
            batch.task = self._run(self._look_up_together(batch))
            batch.task.add_done_callback(batch.ended)

    async def _look_up_together(self, batch: _Batch) -> None:
        """Titles of one request; where some are known already, the others are asked for after them."""
        try:
            found = await self._fetch(batch, [wanted.key for wanted in batch.open])
            if isinstance(found, KnownParts):
                batch.settle(found.bodies)
                if batch.open:
                    await self._fetch(batch, parts=())
        except SearchFailed as error:  # what is known of old stands in; the others have the error
            stale = await self._budget.recall_stale([wanted.key for wanted in batch.open])
            batch.settle(stale, is_stale=True)
            for wanted in batch.open:
                wanted.fail(error)

    async def _fetch(self, batch: _Batch, parts: Sequence[bytes]) -> Found:
        """Ask the wiki, and settle all who wait; or bring what is known of these parts."""
        titles = batch.open
        until_s = max(wanted.until_s for wanted in titles)
        timeout_s = until_s - asyncio.get_running_loop().time()
        parameters = {**self._parameters, "titles": "|".join(wanted.title for wanted in titles)}

        def split(body: bytes, _: QueryAnswer) -> Sequence[Entry]:
            answer = json.loads(body)
            answers = {wanted.key: part_of(answer, wanted.title) for wanted in titles}
            entries = [
                Entry(key, json.dumps(part).encode(), is_negative=not _has_page(part))
                for key, part in answers.items()
            ]
            batch.settle({entry.key: entry.body for entry in entries})
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


def batched(titles: Sequence[Title]) -> Iterable[Sequence[Title]]:
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
