"""The MediaWiki client against a real MediaWiki, whole and with its faults."""

import json
import time
import unicodedata
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from crag_core.errors import SearchFailed
from crag_core.queries.planning import full_text_query
from crag_core.types import Document, DocumentSource
from deployments.backends.wikipedia.mediawiki import MediaWiki
from deployments.backends.wikipedia.mediawiki_api import plain_query
from deployments.backends.wikipedia.parameters import search_parameters
from tests.mediawiki.conftest import SNAPSHOT, NewClient
from tests.mediawiki.local_wiki import LocalWiki

pytestmark = pytest.mark.mediawiki

PAGES = [json.loads(line) for line in SNAPSHOT.read_text(encoding="utf-8").splitlines()]
DISAMBIGUATION_TITLES = [page["title"] for page in PAGES if page["disambiguation"]]
DRACULA = next(page for page in PAGES if page["title"] == "Dracula")
HTML = {"Content-Type": "text/html; charset=utf-8"}


def titles(documents: Sequence[Document]) -> list[str]:
    return [document.title for document in documents]


async def search(client: MediaWiki, query: str, *, limit: int, timeout_s: float) -> Sequence[Document]:
    """Leads of the pages that full text finds."""
    plain = plain_query(query)
    if not plain:
        return []
    answer = await client.query(search_parameters(plain, limit), timeout_s=timeout_s)
    found = [page.document(client.host) for page in answer.ranked if page.is_readable]
    return found[:limit]


def sent_query(mediawiki: LocalWiki) -> str:
    return parse_qs(urlsplit(mediawiki.requests[-1]["uri"]).query)["gsrsearch"][0]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Who was the composer of Nixon in China?", "Nixon in China (opera)"),
        ("Who was the first person to walk on the Moon?", "Neil Armstrong"),
        ("Who is the author of The Satanic Verses?", "The Satanic Verses"),
        ("Who was the captain of RMS Titanic?", "RMS Titanic"),
        ("What is the capital of the U.S. state of Georgia?", "Georgia (U.S. state)"),
        ("In what country is Łódź?", "Łódź"),
        ("With which Greek god was Mercury identified?", "Mercury (mythology)"),
        ("Which metal has the highest melting point?", "Tungsten"),
        ("Who created C++?", "C++"),
    ],
)
async def test_a_question_finds_its_page_with_one_request(
    mediawiki: LocalWiki, new_client: NewClient, question: str, title: str
) -> None:
    documents = await search(new_client(), full_text_query(question), limit=3, timeout_s=5)
    assert title in titles(documents)
    assert len(mediawiki.requests) == 1


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("AC/DC", "AC/DC"),
        ("C++", "C++"),
        ("Schrödinger's cat", "Schrödinger's cat"),
        ('"Heroes" David Bowie album', '"Heroes" (David Bowie album)'),
        ("2001: A Space Odyssey", "2001: A Space Odyssey (film)"),
        ("Washington, D.C.", "Washington, D.C."),
        ("Yahoo!", "Yahoo"),
        ("東京", "Tokyo"),
        ("기생충", "Parasite (film)"),
        ("Beyonce", "Beyoncé"),
        (unicodedata.normalize("NFD", "Beyoncé"), "Beyoncé"),
        ("King of Cool", "Steve McQueen (actor)"),
        ("BSOD", "Blue screen of death"),
    ],
)
async def test_awkward_titles_and_redirects_lead_to_their_page(
    new_client: NewClient, query: str, title: str
) -> None:
    assert titles(await search(new_client(), query, limit=3, timeout_s=5))[0] == title


@pytest.mark.parametrize(
    ("query", "title"),
    [
        pytest.param("Microsoft Windows stop code", "Blue screen of death", id="text"),
        pytest.param("Francis Bacon artist", "Francis Bacon (artist)", id="redirect"),
    ],
)
async def test_a_wiki_with_stock_search_is_searched_by_text_and_its_redirects_are_followed(
    mediawiki: LocalWiki, new_client: NewClient, query: str, title: str
) -> None:
    with mediawiki.fault(stock_search=True):
        assert titles(await search(new_client(), query, limit=3, timeout_s=5)) == [title]


@pytest.mark.parametrize("title", DISAMBIGUATION_TITLES)
async def test_disambiguation_pages_are_never_returned(new_client: NewClient, title: str) -> None:
    found = titles(await search(new_client(), title, limit=5, timeout_s=5))
    assert title not in found


async def test_a_document_has_text_revision_and_address_of_its_page(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    document = (await search(new_client(), "Dracula", limit=1, timeout_s=5))[0]
    assert document.source is DocumentSource.WIKIPEDIA
    assert document.text.split() == DRACULA["text"].split()
    assert document.text == document.text.strip()
    assert document.url == f"http://127.0.0.1:{mediawiki.port}/wiki/Dracula"
    assert document.revision is not None and document.revision.isdecimal()
    assert document.id.removeprefix("wikipedia:").isdecimal()


async def test_at_most_limit_documents_are_returned(new_client: NewClient) -> None:
    assert len(await search(new_client(), "film", limit=2, timeout_s=5)) == 2


async def test_nothing_found_is_an_empty_result(mediawiki: LocalWiki, new_client: NewClient) -> None:
    assert await search(new_client(), "zyxwv", limit=5, timeout_s=5) == []
    assert len(mediawiki.requests) == 1


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("-Dracula", "Dracula"),
        ("Bram NOT Stoker", "Bram Stoker"),
        ("insource:/.*/", None),
    ],
)
async def test_operators_of_a_query_are_not_obeyed(
    mediawiki: LocalWiki, new_client: NewClient, query: str, title: str | None
) -> None:
    found = titles(await search(new_client(), query, limit=3, timeout_s=5))
    assert found[:1] == ([title] if title else [])
    assert ":" not in sent_query(mediawiki)


async def test_a_long_query_is_cut_and_still_finds_its_page(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    query = DRACULA["text"][:400]
    assert titles(await search(new_client(), query, limit=3, timeout_s=5)) == ["Dracula"]
    assert len(sent_query(mediawiki)) <= 300


async def test_requests_name_the_operator_and_accept_gzip(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    await search(new_client(contact="ops@crag-serve.example"), "Dracula", limit=1, timeout_s=5)
    request = mediawiki.requests[0]
    assert request["user_agent"].startswith("crag-serve/")
    assert " (ops@crag-serve.example) aiohttp/" in request["user_agent"]
    assert request["accept_encoding"] == "gzip"


async def test_an_agent_without_contact_is_refused_and_told_why(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    with pytest.raises(SearchFailed, match=r"HTTP 403: check .* contact"):
        await search(new_client(contact=None), "Dracula", limit=1, timeout_s=5)
    assert len(mediawiki.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 503, "headers": HTML, "body": "<p>Busy</p>"}, id="503"),
        pytest.param({"status": 200, "headers": HTML, "body": "<p>Log in</p>"}, id="html"),
        pytest.param(
            {
                "status": 200,
                "headers": {"Content-Type": "application/json", "Content-Length": "5000"},
                "body": '{"query":{"pages":[{"pa',
            },
            id="truncated",
        ),
        pytest.param({"api_error": "apierror-ratelimited"}, id="ratelimited"),
    ],
)
async def test_a_passing_fault_is_retried(
    mediawiki: LocalWiki, new_client: NewClient, fault: dict[str, object]
) -> None:
    with mediawiki.fault(times=1, **fault):
        documents = await search(new_client(), "Dracula", limit=1, timeout_s=5)
    assert titles(documents) == ["Dracula"]
    assert len(mediawiki.requests) == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"status": 503, "headers": HTML, "body": "<p>secret</p>"}, "127.0.0.1 answered HTTP 503"),
        ({"status": 200, "headers": HTML}, "127.0.0.1 answered something other than JSON"),
        (
            {"status": 200, "headers": {"Content-Type": "application/json"}, "body": "{"},
            "127.0.0.1 answered JSON that cannot be read",
        ),
        ({"api_error": "apierror-ratelimited"}, "127.0.0.1 answered with the API error ratelimited"),
    ],
)
async def test_a_lasting_fault_fails_after_two_retries(
    mediawiki: LocalWiki, new_client: NewClient, fault: dict[str, object], message: str
) -> None:
    with mediawiki.fault(**fault), pytest.raises(SearchFailed) as failure:
        await search(new_client(), "Dracula", limit=1, timeout_s=5)
    assert failure.value.message == message
    assert len(mediawiki.requests) == 3


async def test_a_short_retry_after_is_waited_for(mediawiki: LocalWiki, new_client: NewClient) -> None:
    started = time.monotonic()
    with mediawiki.fault(times=1, status=429, headers={"Retry-After": "1"}):
        documents = await search(new_client(), "Dracula", limit=1, timeout_s=5)
    assert titles(documents) == ["Dracula"]
    assert time.monotonic() - started > 1
    assert len(mediawiki.requests) == 2


async def test_a_retry_after_beyond_the_time_limit_fails_at_once(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    with (
        mediawiki.fault(status=429, headers={"Retry-After": "120"}),
        pytest.raises(SearchFailed, match="HTTP 429 and asks to wait 120 s"),
    ):
        await search(new_client(), "Dracula", limit=1, timeout_s=5)
    assert len(mediawiki.requests) == 1


async def test_maxlag_is_an_error_although_its_status_is_200(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    client = new_client(api_url=f"{mediawiki.api_url}?maxlag=5")
    with (
        mediawiki.fault(lag_s=9),
        pytest.raises(SearchFailed, match="API error maxlag and asks to wait 5 s"),
    ):
        await search(client, "Dracula", limit=1, timeout_s=4)
    assert len(mediawiki.requests) == 1


async def test_an_error_that_would_come_again_is_not_retried(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    with (
        mediawiki.fault(api_error="apierror-readapidenied"),
        pytest.raises(SearchFailed, match="API error readapidenied$"),
    ):
        await search(new_client(), "Dracula", limit=1, timeout_s=5)
    assert len(mediawiki.requests) == 1


async def test_a_stalled_answer_ends_at_the_time_limit(
    mediawiki: LocalWiki, new_client: NewClient
) -> None:
    started = time.monotonic()
    with (
        mediawiki.fault(delay_ms=2000),
        pytest.raises(SearchFailed, match=r"did not answer within 0\.5 s"),
    ):
        await search(new_client(), "Dracula", limit=1, timeout_s=0.5)
    assert time.monotonic() - started < 1.9


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("http://localhost/internal", "localhost"),
        ("http://169.254.169.254/latest/meta-data/", r"169\.254\.169\.254"),
        ("//[::1]:8080/", "::1"),
        ("file:///etc/passwd", "an address without a host"),
        ("http://[broken/", "an address that cannot be read"),
    ],
)
async def test_a_redirect_is_named_and_not_followed(
    mediawiki: LocalWiki, new_client: NewClient, location: str, host: str
) -> None:
    with (
        mediawiki.fault(times=1, status=302, headers={"Location": location}),
        pytest.raises(SearchFailed, match=f"redirects to {host}, which is not followed"),
    ):
        await search(new_client(), "Dracula", limit=1, timeout_s=5)
    assert len(mediawiki.requests) == 1


async def test_an_oversized_answer_is_refused(mediawiki: LocalWiki, new_client: NewClient) -> None:
    with pytest.raises(SearchFailed, match="more than 1000 bytes"):
        await search(new_client(max_response_bytes=1000), "film", limit=5, timeout_s=5)
    assert len(mediawiki.requests) == 1
