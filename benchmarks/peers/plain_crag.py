"""CRAG as a tutorial has it: in one process, one question at a time.

Retrieval, search, rules and prompts are this project's own, in-process, so that what differs is what a
tutorial does otherwise: how models are run, and how questions wait for each other.
"""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from benchmarks.peers.plain_models import plain_evaluator
from crag_core.context import RequestContext
from crag_core.crag import Crag
from crag_core.generation import AnswerWriter
from crag_core.protocols import Generator
from crag_core.settings import SpeculationSettings
from deployments.api.answering import Conversation, ask_of, finished
from deployments.api.schemas.answer import AnswerRequest, AnswerResponse
from deployments.app import Hosting
from deployments.backends.chat_template import ChatTemplate
from deployments.clients import RetrieverClient, SearcherClient
from deployments.in_process import InProcess
from deployments.retriever import Retriever
from deployments.searcher import Searcher
from deployments.settings import ApiSettings, AppSettings

_TIMEOUT_S = 300.0


class PlainCrag:
    """Answers questions one after the other."""

    def __init__(self, settings: AppSettings, generator: Generator) -> None:
        """Opens indexes and evaluator. Raises SettingsError."""
        here: Hosting = InProcess()
        searcher = here.bound(Searcher, settings.searcher)
        counter = ChatTemplate(settings.generator.model, settings.generator.revision)
        self._crag = Crag(
            RetrieverClient(here.bound(Retriever, settings.retriever)),
            plain_evaluator(settings.evaluator),
            [SearcherClient(searcher, source) for source in settings.searcher.sources],
            AnswerWriter(generator, counter),
            settings.crag.model_copy(update={"speculation": SpeculationSettings()}),
        )
        self._is_free = asyncio.Lock()

    async def answer(self, body: Any) -> dict[str, Any]:
        """The answer to a body of `/v1/answer`, in that route's form."""
        request = AnswerRequest.model_validate(body)
        conversation = Conversation(request.question)
        ask = ask_of(conversation, request, request.options, ApiSettings())
        async with self._is_free:
            ctx = RequestContext.starting_now("plain", _TIMEOUT_S)
            answer = await finished(self._crag.stream(ctx, ask))
        response = AnswerResponse.of(answer, "plain", trace=False, answer=answer.text)
        return response.model_dump(mode="json")


def read_settings(config: Path) -> AppSettings:
    """The settings in the `args:` of a Serve config file, as the served application has them."""
    content = yaml.safe_load(config.read_text("utf-8"))
    return AppSettings.model_validate(content["applications"][0]["args"])
