"""Ray's `@serve.batch` as a peer: its queue, in this process, in front of the padded forward."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ray import serve
from transformers import T5ForSequenceClassification

from benchmarks.engine.peers import Pairs, padded_batch
from benchmarks.scheduler import pretend_to_be_a_replica

DEFAULT_PAIRS, DEFAULT_WAIT_S = 10, 0.01
TUNED_WAIT_S = 0.001
"""All pairs are there at once, so waiting for more of them gains nothing."""


class ServeBatch:
    """One call per pair, all at once, as a replica gets them from the questions in flight."""

    def __init__(self, model: T5ForSequenceClassification, max_pairs: int, wait_s: float) -> None:
        self._model = model
        self._max_pairs = max_pairs
        self._wait_s = wait_s

    def __call__(self, pairs: Pairs) -> list[float]:
        """One score per pair."""
        pretend_to_be_a_replica()
        return asyncio.run(self._score_all(pairs))

    async def _score_all(self, pairs: Pairs) -> list[float]:
        with ThreadPoolExecutor(max_workers=1) as thread:

            @serve.batch(max_batch_size=self._max_pairs, batch_wait_timeout_s=self._wait_s)
            async def score(batch: list[Sequence[int]]) -> list[float]:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(thread, padded_batch, self._model, batch)

            return await asyncio.gather(*map(score, pairs))
