"""The papers' scripts' way: no server, a list of questions, vLLM given one prompt at a time.

One line of JSON in, a list of questions; one line out, the list of answers. Kinder than the scripts,
which score every strip and search for every question, whatever the action.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt

from benchmarks.peers.plain_crag import PlainCrag, read_settings
from crag_core.context import RequestContext
from crag_core.types import Completion, Prompt, Sampling, TokenUsage
from deployments.backends.chat_template import ChatTemplate
from deployments.backends.model_folder import model_folder
from deployments.settings import GeneratorSettings


class OnePromptAtATime:
    """vLLM's offline class, one prompt a call."""

    def __init__(self, settings: GeneratorSettings) -> None:
        """Loads the model with the settings of the served one."""
        self._template = ChatTemplate(settings.model, settings.revision)
        self._llm = LLM(
            model=str(model_folder(settings.model, settings.revision)),
            dtype=settings.dtype,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            enforce_eager=settings.enforce_eager,
            trust_remote_code=False,
            disable_log_stats=True,
        )

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        """The whole completion in one piece."""
        ids = self._template.encode(prompt)
        greedy = SamplingParams(temperature=0.0, max_tokens=sampling.max_new_tokens)
        (output,) = self._llm.generate(TokensPrompt(prompt_token_ids=ids), greedy, use_tqdm=False)
        completed = output.outputs[0]
        usage = TokenUsage(len(ids), len(completed.token_ids))
        yield Completion(completed.text, completed.finish_reason, usage)


def main(config: str) -> None:
    """Answer one list after the other until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM prints where the replies would go
    settings = read_settings(Path(config))
    crag = PlainCrag(settings, OnePromptAtATime(settings.generator))

    async def answered(bodies: list[object]) -> list[object]:
        return [await crag.answer(body) for body in bodies]

    for line in sys.stdin:
        print(json.dumps(asyncio.run(answered(json.loads(line)))), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
