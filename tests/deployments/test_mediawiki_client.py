"""The MediaWiki client without a wiki: queries, parsing, and a web server that misbehaves."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from crag_core.errors import SearchFailed, SettingsError
from crag_core.types import Document, DocumentSource
from deployments.backends.wikipedia.mediawiki import MediaWiki
from deployments.backends.wikipedia.mediawiki_api import (
    QueryAnswer,
    plain_query,
)
from deployments.backends.wikipedia.parameters import search_parameters
from deployments.backends.wikipedia.retry import retry_after_s
from deployments.backends.wikipedia.session import user_agent
from deployments.settings import MediaWikiSettings, SearchBudgetSettings

HOST = "en.wikipedia.org"


def page(**changes: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "pageid": 7,
        "ns": 0,
        "title": "Titanic",
        "index": 1,
        "extract": "Titanic was a ship.\n\n",
        "lastrevid": 12,
        "canonicalurl": "https://en.wikipedia.org/wiki/Titanic",
    }
    return plain | changes


def documents(*pages: dict[str, object]) -> list[Document]:
    answer = {"batchcomplete": True, "query": {"pages": list(pages)}, "limits": {"extracts": 20}}
    ranked = QueryAnswer.model_validate(answer).ranked
    return [found.document(HOST) for found in ranked if found.is_readable]


def test_a_page_becomes_a_document() -> None:
    assert documents(page()) == [
        Document(
            id="wikipedia:7",
            text="Titanic was a ship.",
            title="Titanic",
            source=DocumentSource.WIKIPEDIA,
            url="https://en.wikipedia.org/wiki/Titanic",
            revision="12",
        )
    ]


def test_pages_come_in_the_order_of_their_index() -> None:
    found = documents(page(pageid=1, index=3), page(pageid=2, index=1), page(pageid=3, index=2))
    assert [document.id for document in found] == ["wikipedia:2", "wikipedia:3", "wikipedia:1"]


@pytest.mark.parametrize(
    "unreadable",
    [
        page(pageprops={"disambiguation": ""}),
        page(extract=" \n"),
        {"pageid": 7, "ns": 0, "title": "Titanic", "index": 1},
        {"ns": 0, "title": "Redirected to nowhere", "missing": True, "index": 1},
        page(ns=2, title="User:Titanic"),
    ],
)
def test_pages_that_cannot_be_read_are_left_out(unreadable: dict[str, object]) -> None:
    assert documents(unreadable, page(pageid=8, index=2))[0].id == "wikipedia:8"
    assert documents(unreadable) == []


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "https://en.wikipedia.org.evil.example/wiki/Titanic",
        "https://evil.example/wiki/Titanic",
        "//en.wikipedia.org/wiki/Titanic",
        "https://[broken/wiki/Titanic",
    ],
)
def test_only_web_addresses_of_the_wiki_itself_are_kept(address: str) -> None:
    assert documents(page(canonicalurl=address))[0].url is None


def test_an_answer_without_query_has_no_documents() -> None:
    assert QueryAnswer.model_validate({"batchcomplete": True}).ranked == []


@pytest.mark.parametrize(
    ("query", "plain"),
    [
        ("insource:/a.b/ Titanic", "insource /a.b/ Titanic"),
        ("-ship +sea !land", "ship sea land"),
        ('-"ship" -(sea', "ship (sea"),
        ("cats OR dogs AND NOT birds", "cats or dogs and not birds"),
        ("Mercury~2 te?t plan*", "Mercury 2 te t plan"),
        ("C++ AC/DC Nineteen Eighty-Four Q&A", "C++ AC/DC Nineteen Eighty-Four Q&A"),
        ("Beyonce\u0301", "Beyoncé"),
        (" a\x1fb\n\tc\ud800 ", "a b c"),
        ("?", ""),
    ],
)
def test_no_sign_of_a_plain_query_is_an_operator(query: str, plain: str) -> None:
    assert plain_query(query) == plain


@given(st.text(st.characters(), max_size=700))
def test_a_plain_query_is_short_encodable_and_stays_as_it_is(query: str) -> None:
    plain = plain_query(query)
    assert len(plain) <= 300
    assert not set(plain) & set('":*?~<>[]{}|^\\')
    assert plain.encode().decode() == plain
    assert plain_query(plain) == plain


def test_a_long_query_ends_with_a_whole_word() -> None:
    assert plain_query("shipwreck " * 40) == ("shipwreck " * 30).strip()
    assert plain_query("x" * 400) == "x" * 300


def test_one_request_asks_for_no_more_pages_than_it_can_bring() -> None:
    assert search_parameters("ship", 5)["gsrlimit"] == "7"
    assert search_parameters("ship", 20)["gsrlimit"] == "20"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5.0),
        ("Tue, 01 Dec 2026 12:00:30 GMT", 30.0),
        ("Tue, 01 Dec 2026 11:00:00 GMT", 0.0),
        ("", 0.0),
        ("-5", 0.0),
        ("soon", 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float) -> None:
    assert retry_after_s(value, datetime(2026, 12, 1, 12, tzinfo=UTC)) == seconds


@given(st.text())
def test_no_retry_after_raises(value: str) -> None:
    assert retry_after_s(value, datetime(2026, 12, 1, 12, tzinfo=UTC)) >= 0


def test_the_user_agent_names_the_operator() -> None:
    assert " (ops@wiki.example) aiohttp/" in user_agent("ops@wiki.example")
    assert "(" not in user_agent(None)


@dataclass
class Wiki:
    """A web server that answers every request as told, and notes what reached it."""

    answer: Callable[[web.Request], Awaitable[web.StreamResponse]]
    cookies: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    settings: MediaWikiSettings = field(init=False)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.cookies.append(request.headers.get("Cookie", ""))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.answer(request)
        finally:
            self.in_flight -= 1


NewWiki = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[Wiki]]


@pytest.fixture
async def new_wiki() -> AsyncIterator[NewWiki]:
    """Starts servers on `localhost`, a name, since cookies are not kept for bare addresses."""
    servers: list[TestServer] = []

    async def new(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Wiki:
        wiki = Wiki(answer)
        app = web.Application()
        app.router.add_get("/w/api.php", wiki.serve)
        servers.append(TestServer(app, host="localhost"))
        await servers[-1].start_server()
        url = f"http://localhost:{servers[-1].port}/w/api.php"
        wiki.settings = MediaWikiSettings(
            api_url=url,
            max_response_bytes=100_000,
            budget=SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=2),
        )
        return wiki

    yield new
    for server in servers:
        await server.close()


async def nothing_found(request: web.Request) -> web.StreamResponse:
    return web.json_response({"batchcomplete": True})


async def test_searches_beyond_max_in_flight_wait(new_wiki: NewWiki) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return await nothing_found(request)

    wiki = await new_wiki(slow)
    client = MediaWiki(wiki.settings)
    await asyncio.gather(
        *(client.query(search_parameters(f"query {n}", 1), timeout_s=5) for n in range(6))
    )
    await client.close()
    assert len(wiki.cookies) == 6
    assert wiki.most_in_flight == 2


async def test_cookies_are_sent_back_while_the_session_is_open(new_wiki: NewWiki) -> None:
    async def with_cookie(request: web.Request) -> web.StreamResponse:
        response = await nothing_found(request)
        response.set_cookie("WMF-Uniq", "1")
        return response

    wiki = await new_wiki(with_cookie)
    client = MediaWiki(wiki.settings)
    for query in ("ship", "sea"):
        await client.query(search_parameters(query, 1), timeout_s=5)
    await client.close()
    await client.query(search_parameters("land", 1), timeout_s=5)
    await client.close()
    assert wiki.cookies == ["", "WMF-Uniq=1", ""]


async def test_a_token_goes_to_the_wiki_and_is_shown_to_nobody(
    new_wiki: NewWiki, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    async def refusing(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=403, text=f"go away, {seen[-1]}")

    caplog.set_level("DEBUG")
    wiki, token = await new_wiki(refusing), SecretStr("s3cret")
    client = MediaWiki(wiki.settings, token=token)
    with pytest.raises(SearchFailed) as failure:
        await client.query(search_parameters("ship", 1), timeout_s=5)
    await client.close()
    assert seen == ["Bearer s3cret"]
    assert "s3cret" not in f"{failure.value.message} {caplog.text} {token!r} {vars(client)}"


def test_a_token_never_travels_in_the_open() -> None:
    settings = MediaWikiSettings(api_url="http://wiki.example/w/api.php")
    with pytest.raises(SettingsError, match=r"token for wiki\.example would travel in the open"):
        MediaWiki(settings, token=SecretStr("s3cret"))
    MediaWiki(MediaWikiSettings(api_url="https://wiki.example/w/api.php"), token=SecretStr("s"))


async def test_a_compressed_answer_counts_as_long_as_it_is_unpacked(new_wiki: NewWiki) -> None:
    async def bomb(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return web.Response(body=gzip.compress(b" " * 50_000_000), headers=headers)

    wiki = await new_wiki(bomb)
    client = MediaWiki(wiki.settings)
    with pytest.raises(SearchFailed, match="more than 100000 bytes"):
        await client.query(search_parameters("ship", 1), timeout_s=5)
    await client.close()


async def test_a_cancelled_search_stays_cancelled_and_frees_its_slot(new_wiki: NewWiki) -> None:
    reached = asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        reached.set()
        await asyncio.sleep(60)
        raise AssertionError("the client should have hung up")

    wiki = await new_wiki(never)
    budget = SearchBudgetSettings(requests_per_minute=60_000, max_in_flight=1)
    client = MediaWiki(wiki.settings.model_copy(update={"budget": budget}))
    search = asyncio.create_task(client.query(search_parameters("ship", 1), timeout_s=5))
    await reached.wait()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    wiki.answer = nothing_found
    assert await client.query(search_parameters("ship", 1), timeout_s=5) == QueryAnswer()
    await client.close()


async def test_a_code_that_is_no_word_does_not_reach_the_message(new_wiki: NewWiki) -> None:
    async def refused(request: web.Request) -> web.StreamResponse:
        return web.json_response({"errors": [{"code": "<b>bad</b>", "text": "secret"}]})

    client = MediaWiki((await new_wiki(refused)).settings)
    with pytest.raises(SearchFailed) as failure:
        await client.query(search_parameters("ship", 1), timeout_s=5)
    await client.close()
    assert failure.value.message == "localhost answered with the API error unknown"


async def test_an_unreachable_wiki_is_a_failure() -> None:
    url = f"http://127.0.0.1:{unused_port()}/w/api.php"
    client = MediaWiki(MediaWikiSettings(api_url=url))
    with pytest.raises(SearchFailed, match="could not be reached"):
        await client.query(search_parameters("ship", 1), timeout_s=5)
    await client.close()
