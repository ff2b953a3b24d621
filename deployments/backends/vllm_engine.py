"""The generator's engine: vLLM's AsyncLLM behind the core's Generator Protocol."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.inputs import TokensPrompt
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from crag_core.context import Lane, RequestContext
from crag_core.errors import GenerationFailed, PromptTooLong, SettingsError, StageUnavailable
from crag_core.types import Completion, Prompt, Sampling, TokenUsage
from deployments.backends.chat_template import ChatTemplate
from deployments.backends.engine_load import EngineLoad
from deployments.backends.model_folder import model_folder
from deployments.settings import GeneratorSettings

_LANES = tuple(Lane)


class VllmEngine:
    """One vLLM engine; greedy by default, prefix caching on, abort when a reader leaves."""

    def __init__(self, settings: GeneratorSettings, stat_loggers: Sequence[Any] = ()) -> None:
        """Loads the model; raises SettingsError when vLLM cannot.

        `stat_loggers` are vLLM's classes for what it says of itself; without one it counts nothing.
        """
        self._template = ChatTemplate(settings.model, settings.revision)
        self._max_model_len = settings.max_model_len
        self._sequence = 0
        try:
            self._engine = AsyncLLM.from_engine_args(
                AsyncEngineArgs(
                    model=str(model_folder(settings.model, settings.revision)),
                    dtype=settings.dtype,
                    max_model_len=settings.max_model_len,
                    max_num_seqs=settings.max_num_seqs,
                    gpu_memory_utilization=settings.gpu_memory_utilization,
                    tensor_parallel_size=settings.tensor_parallel_size,
                    # pinned: inside a Ray actor vLLM would otherwise look for a placement group
                    distributed_executor_backend="mp" if settings.tensor_parallel_size > 1 else "uni",
                    enforce_eager=settings.enforce_eager,
                    enable_prefix_caching=True,
                    scheduling_policy="priority",  # of lanes, in the order of `Lane`
                    trust_remote_code=False,
                    disable_log_stats=True,  # vLLM's default loggers; those given here are added
                ),
                stat_loggers=list(stat_loggers),
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise SettingsError(f"vLLM could not load {settings.model}: {error}") from error
        cache = self._engine.vllm_config.cache_config
        kv_tokens = (cache.num_gpu_blocks or 0) * cache.block_size
        self._load = EngineLoad(settings.max_num_seqs, kv_tokens)

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        """Pieces of the completion, the last with finish reason and usage.

        Raises PromptTooLong before the first piece, GenerationFailed, or StageUnavailable when the
        engine is dead. Closing the generator aborts the completion.
        """
        ids = self._template.encode(prompt)
        room = self._max_model_len - len(ids)
        if room < 1:
            raise PromptTooLong(
                f"the prompt has {len(ids)} tokens, the generator's window {self._max_model_len}"
            )
        self._sequence += 1
        outputs = self._engine.generate(
            TokensPrompt(prompt_token_ids=ids),
            SamplingParams(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=min(sampling.max_new_tokens, room),
                stop=list(sampling.stop),
                seed=sampling.seed,
                structured_outputs=StructuredOutputsParams(
                    json=sampling.json_schema,
                    # else a small model fills its completion with blanks
                    disable_any_whitespace=True,
                )
                if sampling.json_schema
                else None,
                output_kind=RequestOutputKind.DELTA,
            ),
            # a client may send one request id twice; the engine needs them unique
            f"{ctx.request_id}-{self._sequence}",
            priority=_LANES.index(ctx.lane),
        )
        try:
            # closing the outputs is what aborts the completion
            with self._load.completion(len(ids)) as held:
                async with aclosing(outputs):
                    async for output in outputs:
                        piece = output.outputs[0]
                        held.tokens += len(piece.token_ids)
                        written = TokenUsage(len(ids), held.tokens - len(ids))
                        usage = written if output.finished else None
                        reason = piece.finish_reason if output.finished else None
                        yield Completion(piece.text, reason, usage)
        except EngineDeadError as error:
            raise StageUnavailable("the generator's engine is dead; it is being replaced") from error
        except EngineGenerateError as error:
            raise GenerationFailed("the generator's engine failed on this completion") from error

    @property
    def fill(self) -> float:
        """How full the engine is; above 1, completions wait in it."""
        return self._load.fill

    async def check_health(self) -> None:
        """Raises StageUnavailable when the engine is dead."""
        try:
            await self._engine.check_health()
        except EngineDeadError as error:
            raise StageUnavailable("the generator's engine is dead") from error

    def shutdown(self) -> None:
        """Stop the engine's processes."""
        self._engine.shutdown()
