"""A MediaWiki such as Wikipedia, ready to be asked: its transport, and titles gathered for it."""

import asyncio
from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from crag_core.context import Lane
from deployments.backends.wikipedia.budget import SearchBudget
from deployments.backends.wikipedia.mediawiki_api import Page, QueryAnswer
from deployments.backends.wikipedia.parameters import LEADS, title_parameters
from deployments.backends.wikipedia.session import WikiSession
from deployments.backends.wikipedia.shared_pool import SharedPool
from deployments.backends.wikipedia.title_batcher import TitleBatcher, plain_title
from deployments.backends.wikipedia.transport import PooledTransport
from deployments.settings import MediaWikiSettings


def open_transport(
    settings: MediaWikiSettings, budget: SearchBudget, token: SecretStr | None = None
) -> PooledTransport:
    """A transport of this process to the wiki of the settings, within a budget that others share."""
    return PooledTransport(settings, WikiSession(settings, token), budget)


class MediaWiki:
    """Asks one MediaWiki; one client per process, closed when the process ends."""

    def __init__(
        self,
        settings: MediaWikiSettings,
        budget: SearchBudget | None = None,
        token: SecretStr | None = None,
    ) -> None:
        """Sends nothing yet; without a budget to share, it has one of its own."""
        budget = budget or SharedPool(settings)
        self.host = settings.host
        self._transport = open_transport(settings, budget, token)
        self._titles = TitleBatcher(settings, self._transport, budget, LEADS)

    async def query(
        self, parameters: Mapping[str, str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> QueryAnswer:
        """The answer to these parameters, at the latest after `timeout_s`; raises SearchFailed."""
        return await self._transport.query(parameters, timeout_s=timeout_s, lane=lane)

    async def titled(
        self, titles: Sequence[str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> Sequence[Page | None]:
        """The page of each title with its lead, redirects followed; None where there is none.

        Titles that several questions ask for at the same moment share requests; jobs ask alone, since
        they may have to wait. Raises SearchFailed.
        """
        if lane is not Lane.INTERACTIVE:
            answer = await self.query(title_parameters(titles), timeout_s=timeout_s, lane=lane)
            return answer.pages_of(titles)
        answers = await asyncio.gather(
            *(self._titles.look_up(title, timeout_s=timeout_s) for title in titles)
        )
        return [
            answer.pages_of([plain_title(title)])[0]
            for title, answer in zip(titles, answers, strict=True)
        ]

    async def close(self) -> None:
        """Close the connections; a later query opens new ones."""
        await self._transport.close()
