"""Questions answered in this process, through the same HTTP layer and replicas, without Ray Serve."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks.quality.asking import Baseline, Server
from benchmarks.quality.methods import Method
from benchmarks.quality.questions import QuestionSet
from benchmarks.quality.search_side import SearchSide
from crag_core.compact.baselines import Baseline as CoreBaseline
from crag_core.compact.baselines import IrCot, IterRetGen, SelfAsk, Stages
from crag_core.context import RequestContext
from crag_core.errors import SettingsError
from deployments.clients import GeneratorClient, RetrieverClient
from deployments.in_process import LocalApplication, opened
from deployments.local import app_settings, load_config
from deployments.settings import AppSettings, SearcherSettings

_ADDRESS = "http://in-process"
_PASSAGES = 5


@asynccontextmanager
async def in_process(
    config: Path, search: SearchSide | None, sets: Sequence[QuestionSet]
) -> AsyncIterator[Server]:
    """A server out of a Serve config file; `search` says which of its sources may be searched.

    Raises SettingsError.
    """
    loaded = load_config(config)
    settings = app_settings(loaded)
    if search is not None:
        settings = settings.model_copy(update={"searcher": _searcher(settings, search, sets)})
    async with opened(loaded, settings) as application:
        transport = httpx.ASGITransport(application.api)
        async with httpx.AsyncClient(transport=transport, base_url=_ADDRESS, timeout=None) as client:
            yield Server(client, _baselines(application))


def _searcher(
    settings: AppSettings, search: SearchSide, sets: Sequence[QuestionSet]
) -> SearcherSettings:
    configured = settings.searcher
    fields: dict[str, Any] = {"snapshot": None, "mediawiki": None}
    match search:
        case SearchSide.REPLAY:
            fields["replay"] = tuple(
                str(each.file) for each in sets if any(q.pages is not None for q in each.questions)
            )
            if not fields["replay"]:
                raise SettingsError("no set has `external` pages to replay: choose another --search")
        case SearchSide.SNAPSHOT | SearchSide.MEDIAWIKI:
            fields[search] = getattr(configured, search)
            if fields[search] is None:
                raise SettingsError(f"the config's searcher has no {search}: choose another --search")
    return SearcherSettings.model_validate(
        {**configured.model_dump(exclude={*fields, "replay"}), **fields}
    )


def _baselines(application: LocalApplication) -> dict[Method, Baseline]:
    """CompactRAG's baselines over the application's retriever and generator."""
    stages = Stages(
        RetrieverClient(application.handles["Retriever"]),  # type: ignore[arg-type]  # as a handle
        GeneratorClient(application.handles["Generator"]),  # type: ignore[arg-type]
        passages=_PASSAGES,
    )
    return {
        Method.SELF_ASK: _replying(SelfAsk(stages)),
        Method.IRCOT: _replying(IrCot(stages)),
        Method.ITER_RETGEN: _replying(IterRetGen(stages)),
    }


def _replying(baseline: CoreBaseline) -> Baseline:
    async def reply(request_id: str, question: str, timeout_s: float) -> dict[str, Any]:
        ctx = RequestContext.starting_now(request_id, timeout_s)
        answer = await baseline.answer(ctx, question)
        return {
            "answer": answer.text,
            "action": None,
            "degraded": [],
            "citations": [],
            "usage": asdict(answer.usage),
            "trace": None,
        }

    return reply
