"""The wiki that the tests of this folder search, and a client for it."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from deployments.backends.wikipedia.mediawiki import MediaWiki
from deployments.settings import MediaWikiSettings
from tests.mediawiki.local_wiki import LocalWiki, WikiUnavailable, running_wiki

_REPOSITORY = Path(__file__).resolve().parents[2]
SNAPSHOT = _REPOSITORY / "examples" / "encyclopedia" / "snapshot.jsonl"
_CACHE = os.environ.get("CRAG_MEDIAWIKI_CACHE") or _REPOSITORY / ".cache" / "mediawiki"

BUDGET = {"requests_per_minute": 60_000}  # the tests are not Wikimedia's guests

NewClient = Callable[..., MediaWiki]


@pytest.fixture(scope="session")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWiki]:
    """A MediaWiki filled with the sample encyclopedia; where it cannot run, CI fails and others skip."""
    try:
        root = tmp_path_factory.mktemp("mediawiki") / "wiki"
        with running_wiki(root, SNAPSHOT, Path(_CACHE)) as wiki:
            yield wiki
    except WikiUnavailable as lack:
        if os.environ.get("CI") == "true":
            pytest.fail(str(lack), pytrace=False)
        pytest.skip(str(lack))


@pytest.fixture
def mediawiki(wiki: LocalWiki) -> LocalWiki:
    """The wiki with an empty request log."""
    wiki.forget_requests()
    return wiki


@pytest.fixture
async def new_client(mediawiki: LocalWiki) -> AsyncIterator[NewClient]:
    """Makes clients of the wiki, settings by keyword; they are closed after the test."""
    clients = []

    def new(**settings: object) -> MediaWiki:
        defaults = {"api_url": mediawiki.api_url, "contact": "ops@crag-serve.example", "budget": BUDGET}
        clients.append(MediaWiki(MediaWikiSettings.model_validate(defaults | settings)))
        return clients[-1]

    yield new
    for client in clients:
        await client.close()
