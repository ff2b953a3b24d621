"""The graph's own cost: instant stages and the real generator, against `vllm serve` direct."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.peers import instant_stages
from benchmarks.peers.answers import OURS, Asked
from benchmarks.peers.contest import Contestant, Reply
from benchmarks.peers.contestants import HttpContestant
from benchmarks.served_application import Config, served
from benchmarks.server_process import free_port, running
from crag_core.context import RequestContext
from crag_core.crag import Crag
from crag_core.generation import AnswerWriter
from crag_core.protocols import Ask
from crag_core.settings import AnswerOptions
from crag_core.types import Completion, Prompt, Question, Sampling, TokenUsage
from deployments.api.answering import finished
from deployments.app import Hosting
from deployments.backends.chat_template import ChatTemplate
from deployments.clients import EvaluatorClient, RetrieverClient, SearcherClient
from deployments.in_process import InProcess
from deployments.settings import AppSettings

VLLM = "vllm serve"
_MODEL = "generator"
_API_SERVER = "vllm.entrypoints.launchers.api_server.entry"
"""What `vllm serve` runs; the command itself asks for a package name that the CPU build has not."""

_OWN_SWITCH = "VLLM_ENABLE_V1_MULTIPROCESSING"
"""How this server runs vLLM in a replica; `vllm serve` keeps its own way."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """A question, and the prompt that the graph makes of it."""

    asked: Asked
    prompt: Prompt

    def body(self) -> Mapping[str, Any]:
        """For `/v1/answer`."""
        return self.asked.body()

    def chat(self) -> Mapping[str, Any]:
        """For `/v1/chat/completions` of the bare generator."""
        messages = [{"role": m.role, "content": m.content} for m in self.prompt.messages]
        limit = self.asked.max_new_tokens
        return {"model": _MODEL, "messages": messages, "max_tokens": limit, "temperature": 0}


def prompted(config: Config, asked: Sequence[Asked]) -> list[Prompted]:
    """The questions with the prompts that the served graph sends to its generator."""
    settings = AppSettings.model_validate(config["applications"][0]["args"])
    counter = ChatTemplate(settings.generator.model, settings.generator.revision)
    return [Prompted(one, asyncio.run(_prompt(settings, counter, one))) for one in asked]


@contextmanager
def contestants(config: Config, at_once: int) -> Iterator[list[Contestant[Prompted]]]:
    """The graph first, then the bare generator, both running."""
    ours = deepcopy(config)
    application = ours["applications"][0]
    application["import_path"] = f"{instant_stages.__name__}:build_app"
    settings = AppSettings.model_validate(application["args"]).generator
    env = {**application["runtime_env"]["env_vars"]}
    env.pop(_OWN_SWITCH, None)
    port = free_port()
    command = [
        sys.executable, "-m", _API_SERVER, "--model", settings.model,
        "--host", "127.0.0.1", "--port", str(port), "--served-model-name", _MODEL,
        "--dtype", settings.dtype, "--max-model-len", str(settings.max_model_len),
        "--max-num-seqs", str(settings.max_num_seqs), "--disable-log-stats",
        *(["--enforce-eager"] if settings.enforce_eager else []),
    ]  # fmt: skip
    with served(ours) as graph, running(command, port, "/health", env=env) as bare:
        yield [
            HttpContestant(OURS, graph, "/v1/answer", Prompted.body, _of_answer, at_once),
            HttpContestant(VLLM, bare, "/v1/chat/completions", Prompted.chat, _of_chat, at_once),
        ]


def _of_answer(answer: Any) -> Reply:
    return Reply(answer["usage"]["prompt_tokens"], answer["answer"].strip())


def _of_chat(completion: Any) -> Reply:
    text = completion["choices"][0]["message"]["content"]
    return Reply(completion["usage"]["prompt_tokens"], text.strip())


@dataclass(slots=True)
class _Recorder:
    """A generator that keeps the prompt it is given."""

    prompt: Prompt | None = None

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        self.prompt = prompt
        yield Completion("", "stop", TokenUsage())


async def _prompt(settings: AppSettings, counter: ChatTemplate, asked: Asked) -> Prompt:
    recorder = _Recorder()
    here: Hosting = InProcess()
    searcher = here.bound(instant_stages.Searcher, None)
    crag = Crag(
        RetrieverClient(here.bound(instant_stages.Retriever, None)),
        EvaluatorClient(here.bound(instant_stages.Evaluator, None)),
        [SearcherClient(searcher, source) for source in settings.searcher.sources],
        AnswerWriter(recorder, counter),
        settings.crag,
    )
    options = AnswerOptions.model_validate(asked.body()["options"])
    ask = replace(Ask(Question(asked.question)), options=options)
    await finished(crag.stream(RequestContext.starting_now("prompt", 60), ask))
    assert recorder.prompt is not None
    return recorder.prompt
