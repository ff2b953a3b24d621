"""The searcher's replica."""

import asyncio
from collections.abc import Sequence

from pydantic import SecretStr

from crag_core.errors import SearchFailed
from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan, Sought
from crag_core.queries.planning import plan_search
from crag_core.queries.reproduction import reproduction_plan
from crag_core.types import Document, DocumentSource, Stage
from deployments.backends.wikipedia.budget import SearchBudget
from deployments.backends.wikipedia.fallback_budget import FallbackBudget
from deployments.messages import ReadRequest, SearchRequest
from deployments.observability.meter import meter
from deployments.observability.redaction import redact_logs
from deployments.observability.search_metrics import SearchCounts
from deployments.observability.stage_times import working
from deployments.settings import SearcherSettings, SearchMode


class Searcher:
    """Finds web pages: leads and candidates only; choosing among them is the core's business."""

    def __init__(
        self,
        settings: SearcherSettings,
        budget: SearchBudget | None = None,
        token: SecretStr | None = None,
    ) -> None:
        """Opens the snapshot and prepares the client; raises SettingsError when a part is missing.

        `budget` is what all replicas share for the wiki, `token` the operator's for it.
        """
        # imported here: the node that builds the application need not load what only a replica uses
        from deployments.backends.entity_finder import SpacyEntityFinder
        from deployments.backends.indexes.snapshot_search import SnapshotSearch
        from deployments.backends.replayed_search import ReplayedSearch
        from deployments.backends.wikipedia.mediawiki import MediaWiki
        from deployments.backends.wikipedia.search import WikiSearch, wiki_search

        redact_logs()
        self._mode = settings.mode
        self._finder = settings.entity_model and SpacyEntityFinder.load(settings.entity_model)
        self._wiki: WikiSearch | None = None
        self._budget: FallbackBudget | None = None
        if settings.mediawiki is not None:
            counts = SearchCounts(meter(), settings.mediawiki.host)
            self._budget = FallbackBudget(budget, settings.mediawiki, counts) if budget else None
            wiki = MediaWiki(settings.mediawiki, self._budget, token)
            self._wiki = wiki_search(wiki, settings)
        self._snapshot = settings.snapshot and SnapshotSearch.open(settings.snapshot)
        self._replay = ReplayedSearch.open(settings.replay) if settings.replay else None

    async def search(self, request: SearchRequest) -> SearchResult:
        """Pages of one source, best first; none when nothing was found. Expired work is refused."""
        ctx = request.context.localize()
        ctx.require_time(Stage.SEARCH)
        with working(ctx, Stage.SEARCH):
            if request.source is DocumentSource.REPLAY and self._replay:
                return self._replay.search(ctx.request_id, limit=request.limit)
            plan = await self._plan(request.sought)
            if request.source is DocumentSource.WIKIPEDIA and self._wiki:
                return await self._wiki.search(
                    plan, limit=request.limit, timeout_s=ctx.remaining_s(), lane=ctx.lane
                )
            if request.source is DocumentSource.SNAPSHOT and self._snapshot:
                return await self._snapshot.search(plan, limit=request.limit)
        raise SearchFailed(f"the searcher has no source {request.source}")

    async def read(self, request: ReadRequest) -> Sequence[Document]:
        """The paragraphs of a page; a snapshot has no more of a page than its search returned."""
        ctx = request.context.localize()
        ctx.require_time(Stage.SEARCH)
        with working(ctx, Stage.SEARCH):
            if request.source is DocumentSource.WIKIPEDIA and self._wiki:
                return await self._wiki.read(request.page, timeout_s=ctx.remaining_s(), lane=ctx.lane)
            return ()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What SearcherPolicy decides by."""
        return {"waiting_for_budget": self._budget.waiting if self._budget else 0}

    async def _plan(self, sought: Sought) -> SearchPlan:
        if self._mode is SearchMode.REPRODUCTION:
            return reproduction_plan(sought)
        if self._finder:  # a model of some milliseconds, which the event loop must not wait for
            return await asyncio.to_thread(plan_search, sought, self._finder)
        return plan_search(sought)
