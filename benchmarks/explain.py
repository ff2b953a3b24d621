"""Explanations against the open reproduction's way: the same masked inputs, one at a time."""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import T5Tokenizer

from benchmarks.datasets import read_rows
from benchmarks.engine import peers
from benchmarks.engine.shapes import Shape, random_t5, t5_config
from benchmarks.report import table
from crag_core.context import Lane, RequestContext
from crag_core.explaining import ExplainAsk, Explanation, Method, Unit
from crag_core.types import Passage
from deployments.backends.batching.pair_scorer import PreparedPair
from deployments.backends.evaluators.batched_evaluator import BatchedEvaluator
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.model_folder import sha256_of, tokenizer_file, weights_file, weights_sha256
from deployments.settings import EvaluatorSettings
from explainability.explaining import ScoreExplainer

_SENTINELS = 100
_WORD_PIECES = 6_000
_PADDED_SAMPLE = 5
"""Masked inputs scored as the reproduction does, each in about a second."""

Timed = Callable[[Sequence[PreparedPair]], Sequence[float]]


@dataclass
class Contest:
    """One evaluator's seconds per explanation, by way, and how exact its explanations are."""

    name: str
    inputs: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    additivity: list[float] = field(default_factory=list)
    moved: float = 0.0
    """The largest difference between a score one at a time and the same in a batch."""

    def row(self, way: str) -> list[str]:
        """Seconds per explanation, and how many times ours."""
        ours, theirs = self.seconds["ours"], self.seconds[way]
        ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
        low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
        seconds = f"{statistics.median(theirs):.2f}"
        return [self.name, way, seconds, f"{middle:.1f} ({low:.1f} to {high:.1f})"]


def explain(
    data: Annotated[Path, typer.Option(help="Folder with popqa.jsonl[.gz].")],
    shape: Annotated[Shape, typer.Option(help="Size of the T5 with random weights.")] = Shape.SMALL,
    pairs: Annotated[int, typer.Option(help="Pairs to explain.", min=1)] = 6,
    max_words: Annotated[int, typer.Option(help="Words of a passage.", min=5)] = 15,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain pairs by both ways in turn; print seconds, ratios and additivity errors.

    Both ways score the same masked inputs with the same model: 2 x words + 1 of each pair.
    """
    chosen = _pairs(data, pairs, max_words)
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        contests = [
            asyncio.run(_t5_contest(Path(folder), shape, chosen, data, threads)),
            asyncio.run(_embedded_contest(chosen, threads)),
        ]
    if as_json:
        print(json.dumps([vars(contest) for contest in contests]))
        return
    rows = [contest.row(way) for contest in contests for way in contest.seconds]
    print(table(["evaluator", "way", "s per explanation", "times ours (range)"], rows))
    for contest in contests:
        print(
            f"{contest.name}: {statistics.mean(contest.inputs):.0f} masked inputs a pair; additivity "
            f"error {max(contest.additivity):.1e} of the score at most; a score moves "
            f"{contest.moved:.1e} at most with its batch"
        )


async def _t5_contest(
    folder: Path, shape: Shape, pairs: Sequence[tuple[str, Passage]], data: Path, threads: int
) -> Contest:
    model = _t5_folder(folder, shape, data)
    evaluator = BatchedEvaluator(EvaluatorSettings(model=str(folder), threads=threads))
    ways: dict[str, Timed] = {
        "one at a time, padded to 512": lambda inputs: peers.papers_loop(
            model, [pair.payload for pair in inputs]
        ),
        "one at a time, unpadded": lambda inputs: peers.one_by_one(
            model, [pair.payload for pair in inputs]
        ),
    }
    return await _contest(f"T5-{shape}", evaluator, pairs, ways, {"one at a time, padded to 512"})


async def _embedded_contest(pairs: Sequence[tuple[str, Passage]], threads: int) -> Contest:
    def settings() -> EvaluatorSettings:
        return EvaluatorSettings(
            model="deployments/evaluators/minilm-head",
            encoder=".models/all-minilm-l6-v2",
            threads=threads,
        )

    alone = BatchedEvaluator(settings()).scorer

    def one_at_a_time(inputs: Sequence[PreparedPair]) -> list[float]:
        scores: list[float] = []
        for pair in inputs:
            alone.forget()  # type: ignore[attr-defined]  # the embedding evaluator's own
            scores += alone.score([pair])
        return scores

    ways: dict[str, Timed] = {"one at a time": one_at_a_time}
    return await _contest("embedded", BatchedEvaluator(settings()), pairs, ways, set())


async def _contest(
    name: str,
    evaluator: BatchedEvaluator,
    pairs: Sequence[tuple[str, Passage]],
    ways: dict[str, Timed],
    sampled: set[str],
) -> Contest:
    """Each pair by each way before the next pair; of a way in `sampled` few inputs, scaled up."""
    contest = Contest(name, seconds={"ours": [], **{way: [] for way in ways}})
    await _explained(evaluator, *pairs[0], seed=1)  # warm
    for question, passage in pairs:
        started = time.perf_counter()
        explanation, kept, scores = await _explained(evaluator, question, passage)
        contest.seconds["ours"].append(time.perf_counter() - started)
        error = explanation.additivity_error / max(1.0, abs(explanation.score))
        contest.additivity.append(error)
        maskable = evaluator.scorer.maskable(question, passage)
        inputs = [maskable.masked(each) for each in kept]
        contest.inputs.append(len(inputs))
        for way, score in ways.items():
            own = inputs[:: max(1, len(inputs) // _PADDED_SAMPLE)] if way in sampled else inputs
            started = time.perf_counter()
            alone = score(own)
            contest.seconds[way].append((time.perf_counter() - started) * len(inputs) / len(own))
            batched = {pair.key: score for pair, score in zip(inputs, scores, strict=True)}
            moved = [abs(batched[pair.key] - score) for pair, score in zip(own, alone, strict=True)]
            contest.moved = max(contest.moved, *moved)
    await evaluator.batcher.stop()
    return contest


async def _explained(
    evaluator: BatchedEvaluator, question: str, passage: Passage, seed: int = 0
) -> tuple[Explanation, Sequence[int], Sequence[float]]:
    """An explanation, the masked inputs that it took, and their scores."""
    noting = _Noting(evaluator)
    words = len(question.split()) + len(passage.text.split())
    ask = ExplainAsk(question, passage, Unit.WORD, Method.PARTITION, 2 * words + 1, seed)
    ctx = RequestContext.starting_now("benchmark", 600.0, Lane.EXPLAIN)
    explanation = await ScoreExplainer(noting).explain(ctx, ask)
    return explanation, noting.kept, noting.scores


@dataclass
class _Noting:
    """The evaluator, with a note of what was asked of it."""

    evaluator: BatchedEvaluator
    kept: Sequence[int] = ()
    scores: Sequence[float] = ()

    async def evaluate(self, ctx: RequestContext, question: str, passages: Sequence[Passage]) -> Any:
        return await self.evaluator.evaluate(ctx, question, passages)

    async def pieces(self, ctx: RequestContext, question: str, passage: Passage) -> Any:
        return await self.evaluator.pieces(ctx, question, passage)

    async def evaluate_masked(
        self, ctx: RequestContext, question: str, passage: Passage, kept: Sequence[int]
    ) -> Sequence[float]:
        self.kept = kept
        self.scores = await self.evaluator.evaluate_masked(ctx, question, passage, kept)
        return self.scores


def _pairs(data: Path, count: int, max_words: int) -> list[tuple[str, Passage]]:
    rows = (row for row in read_rows(data, "popqa") if row["internal"])
    found = [
        (row["question"], Passage(" ".join(row["internal"][0]["text"].split()[:max_words])))
        for row, _ in zip(rows, range(count), strict=False)
    ]
    if len(found) < count:
        raise typer.BadParameter(f"{data} has {len(found)} questions with passages, {count} asked for")
    return found


def _t5_folder(folder: Path, shape: Shape, data: Path) -> Any:
    """A T5 classifier with random weights and a vocabulary of its own, as the evaluator loads it."""
    texts = (document["text"] for row in read_rows(data, "popqa") for document in row["internal"])
    unigram: Any = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    specials = ["<pad>", "</s>", "<unk>"]
    trainer: Any = trainers.UnigramTrainer(
        vocab_size=_WORD_PIECES, special_tokens=specials, unk_token="<unk>", show_progress=False
    )
    unigram.train_from_iterator(texts, trainer)
    vocabulary = [tuple(piece) for piece in json.loads(unigram.to_str())["model"]["vocab"]]
    sentinels = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(_SENTINELS))]
    T5Tokenizer(vocab=[*vocabulary, *sentinels], extra_ids=_SENTINELS).save_pretrained(folder)
    size = shape.config
    config = t5_config(
        len(vocabulary) + _SENTINELS, size.d_model, size.d_ff, size.num_layers, size.num_heads, size.d_kv
    )
    model = random_t5(config)
    model.save_pretrained(folder)
    weights = weights_file(folder)
    write_manifest(
        folder,
        EvaluatorManifest(
            format=1,
            kind=EvaluatorKind.T5,
            weights=weights.name,
            weights_sha256=weights_sha256(folder, weights.name),
            tokenizer_sha256=sha256_of(tokenizer_file(folder)),
            template="{question} [SEP] {passage}",
            passage_form=PassageForm.TEXT,
            max_tokens=512,
            dtype="float32",
            thresholds=EvaluatorThresholds(upper=0.592, lower=-0.995, strip=-0.5),
            epsilon=0.0,
            trained_on="nothing: random weights",
            command="python -m benchmarks explain",
        ),
    )
    return model
