"""Everyone who scores the pairs: the engine, the papers' loop, and servers in the engine's dtype."""

from functools import partial

from transformers import T5ForSequenceClassification

from benchmarks.engine import peers
from benchmarks.engine.contest import Contest
from benchmarks.engine.litserve_peer import LitServePeer
from benchmarks.engine.peers import Pairs
from benchmarks.engine.serve_batch import (
    DEFAULT_PAIRS,
    DEFAULT_WAIT_S,
    TUNED_WAIT_S,
    ServeBatch,
)
from deployments.backends.t5.t5_engine import DecisionSafety, T5Engine

OURS, OURS_SAFE, OURS_FP32 = "packed", "packed, safe decisions", "packed, float32"
REFERENCE = "Hugging Face, one by one, float32"
PAPERS = "the papers' loop: one by one, padded to 512, float32"
SORTED = f"Hugging Face, sorted, {peers.BEST_TOKENS} tokens"
TEI = f"TEI's policy, {peers.TEI_TOKENS} tokens"
SERVE_BATCH = f"@serve.batch, {DEFAULT_PAIRS} pairs, {DEFAULT_WAIT_S * 1000:g} ms (default)"
SERVE_BATCH_TUNED = "@serve.batch, best batch size"
LITSERVE = "LitServe, best batch size, over HTTP"
PEERS = (SORTED, TEI, SERVE_BATCH, SERVE_BATCH_TUNED, LITSERVE)
"""In the same dtype as ours."""

_REFERENCE_PAIRS = 7


def contest_of(
    model: T5ForSequenceClassification,
    cast: T5ForSequenceClassification,
    ours: T5Engine,
    litserve: LitServePeer | None,
    best_size: int,
    pairs: Pairs,
) -> Contest:
    """Everyone at the start: the slow ones score few of the pairs.

    `cast` is the model in the dtype of `ours`.
    `best_size` is the number of pairs a batch at which the padded forward is fastest on these.
    """

    def score(safety: DecisionSafety, pairs: Pairs) -> list[float]:
        ours.safety = safety
        return ours.score_ids(pairs)

    few = [pairs[i] for i in reference_places(len(pairs))]
    contest = Contest(model.config)
    contest.enter(PAPERS, partial(peers.papers_loop, model), few[:2])
    contest.enter(REFERENCE, partial(peers.one_by_one, model), few)
    contest.enter(SORTED, partial(peers.token_budget_sorted, cast), pairs)
    contest.enter(TEI, partial(peers.tei_like, cast), pairs)
    contest.enter(SERVE_BATCH, ServeBatch(cast, DEFAULT_PAIRS, DEFAULT_WAIT_S), pairs)
    contest.enter(SERVE_BATCH_TUNED, ServeBatch(cast, best_size, TUNED_WAIT_S), pairs)
    if litserve:
        contest.enter(LITSERVE, litserve, pairs, litserve.cpu_time)
    contest.enter(OURS_FP32, ours.exact_scores, pairs)
    contest.enter(OURS, partial(score, DecisionSafety()), pairs)
    if ours.safety.epsilon:
        contest.enter(OURS_SAFE, partial(score, ours.safety), pairs)
    return contest


def reference_places(pairs: int) -> range:
    """Which of so many pairs the slow reference scores."""
    return range(0, pairs, max(1, pairs // _REFERENCE_PAIRS))
