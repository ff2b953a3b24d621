"""A study from beginning to end: samples chosen by action, each explained, findings written."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.run_folder import RunFolder, broken
from crag_core.errors import SettingsError
from crag_core.explaining import Method, Side, Unit
from crag_core.types import Action
from deployments.backends.dense_encoder import DenseEncoder
from deployments.backends.evaluators.batched_evaluator import BatchedEvaluator
from deployments.backends.evaluators.classifier_checkpoint import load_classifier
from deployments.backends.evaluators.cross_encoder import MaskableCrossEncoding
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind
from deployments.backends.evaluators.scorer import Scorer
from deployments.backends.model_folder import model_folder
from deployments.backends.reading.entities import SpacyEntities
from deployments.backends.t5.t5_scorer import MaskableT5
from deployments.backends.tokenization import TextTokenizer
from deployments.settings import AppSettings, EvaluatorSettings
from explainability.explaining import ScoreExplainer
from explainability.integrated_gradients import integrated_gradients
from explainability.players import players_of
from explainability.study.rows import Observer, Row
from explainability.study.samples import Sample, candidates

CHOSEN = "chosen.json"
_SCORED_AT_ONCE = 64
_MOST_SCORED = 2_000
"""Samples of a set that are scored in search of rare actions."""
_EXPLAINED_AT_ONCE = 4
_PATIENCE_S = 3_600.0
_LENDERS = 40
"""Samples before and after one in the shuffled list that may lend it a name or a sense."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class StudySettings:
    """What is studied; resumed with the same values alone.

    `evaluations_per_word`, where set, bounds each sample's evaluations by its words, as the open
    reproduction does. Every `second_every`-th sample of an action is explained by `second` too.
    """

    sets: tuple[str, ...]
    per_action: int
    max_words: int
    max_evaluations: int
    whole_sentences: bool = True
    evaluations_per_word: int | None = None
    seed: int = 0
    second: Method = Method.PERMUTATION
    second_every: int = 10


def reproduction(seed: int) -> StudySettings:
    """The protocol of the open reproduction: nine samples of PopQA, 15 words, 2 x words + 1."""
    return StudySettings(
        ("popqa",), per_action=3, max_words=15, max_evaluations=512, whole_sentences=False,
        evaluations_per_word=2, seed=seed,
    )  # fmt: skip


async def study(
    app: AppSettings, data: Path, folder: Path, settings: StudySettings, progress: Progress
) -> list[Row]:
    """All rows of the study; those on disk are not made again.

    Raises SettingsError when the data, the evaluator or the folder do not fit.
    """
    pool = {
        name: candidates(
            data, [name], settings.max_words, settings.seed, whole_sentences=settings.whole_sentences
        )
        for name in settings.sets
    }
    observer = _observer(app, settings)
    run = {**asdict(settings), "evaluator": observer.evaluator.scorer.manifest.evaluator_id}
    run["sets"] = list(settings.sets)
    try:
        kept = RunFolder(folder, run)
        rows = {row.id: row for row in _read(kept)}
    except ValueError as error:
        raise SettingsError(str(error)) from error
    try:
        wanted = await _wanted(observer, pool, folder / CHOSEN, settings)
        progress(len(rows), len(wanted))
        gate = asyncio.Semaphore(_EXPLAINED_AT_ONCE)

        async def explain(number: int, sample: Sample) -> None:
            async with gate:
                at = pool[sample.set_name].index(sample)
                lenders = pool[sample.set_name][max(0, at - _LENDERS) : at + _LENDERS]
                second = settings.second if number % settings.second_every == 0 else None
                row = await observer.row(sample, lenders, second)
            rows[row.id] = row
            kept.add(row.as_fields())
            progress(len(rows), len(wanted))

        async with asyncio.TaskGroup() as tasks:
            for number, sample in wanted:
                if sample.id not in rows:
                    tasks.create_task(explain(number, sample))
    finally:
        kept.close()
        await observer.evaluator.batcher.stop()
    return [rows[sample.id] for _, sample in wanted]


async def _wanted(
    observer: Observer, pool: Mapping[str, Sequence[Sample]], path: Path, settings: StudySettings
) -> list[tuple[int, Sample]]:
    """The samples of the study, each with its number among those of its action; chosen once."""
    chosen = _read_chosen(path)
    if chosen is None:
        chosen = [
            (number, sample.id)
            for name in settings.sets
            async for number, sample in _chosen(observer, pool[name], settings.per_action)
        ]
        _write_chosen(path, chosen)
    known = {sample.id: sample for samples in pool.values() for sample in samples}
    try:
        return [(number, known[id_]) for number, id_ in chosen]
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{path} names other samples than the data has: take the data it was made from, or choose "
            "another --out"
        ) from error


def _read_chosen(path: Path) -> list[tuple[int, str]] | None:
    if not path.exists():
        return None
    chosen: list[tuple[int, str]] = json.loads(path.read_text("utf-8"))
    return chosen


def _write_chosen(path: Path, chosen: Sequence[tuple[int, str]]) -> None:
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(json.dumps(chosen), "utf-8")
    aside.replace(path)


async def _chosen(
    observer: Observer, pool: Sequence[Sample], per_action: int
) -> AsyncIterator[tuple[int, Sample]]:
    """The first samples of each action, one of a question, numbered by action; fewer where there are
    no more."""
    counts: Counter[str] = Counter()
    used: set[str] = set()
    for start in range(0, min(len(pool), _MOST_SCORED), _SCORED_AT_ONCE):
        chunk = pool[start : start + _SCORED_AT_ONCE]
        for sample, action in zip(chunk, await observer.actions(chunk), strict=True):
            question_id = sample.id.rpartition("/")[0]
            if question_id not in used and counts[action] < per_action:
                used.add(question_id)
                yield counts[action], sample
                counts[action] += 1
        if all(counts[action] == per_action for action in Action):
            return


def _read(kept: RunFolder) -> list[Row]:
    rows = []
    for place, fields in kept.rows():
        try:
            rows.append(Row.of(fields))
        except (TypeError, KeyError) as error:
            raise broken(place) from error
    return rows


def _observer(app: AppSettings, settings: StudySettings) -> Observer:
    names = app.explain and app.explain.entities
    # no answer waits here, so batches may be full
    batching = app.evaluator.batching.model_copy(update={"background_quantum_s": _PATIENCE_S})
    evaluator = BatchedEvaluator(app.evaluator.model_copy(update={"batching": batching}))
    return Observer(
        evaluator,
        ScoreExplainer(evaluator, SpacyEntities(names) if names else None),
        DenseEncoder(app.retriever.encoder),
        settings.max_evaluations,
        settings.evaluations_per_word,
        settings.seed,
        _gradients(app.evaluator, evaluator.scorer),
    )


def _gradients(
    settings: EvaluatorSettings, scorer: Scorer
) -> Callable[[Sample], Sequence[float]] | None:
    """Integrated gradients by Hugging Face's own forward; an embedding head reads words beside them."""
    if scorer.manifest.kind is EvaluatorKind.EMBEDDING_HEAD:
        return None
    folder = model_folder(settings.model)
    model = load_classifier(folder, scorer.manifest, torch.float32)
    mask_id = TextTokenizer(folder).mask_ids[0]

    def of(sample: Sample) -> Sequence[float]:
        pair = scorer.maskable(sample.question, sample.passage)
        assert isinstance(pair, MaskableT5 | MaskableCrossEncoding)
        values, _ = integrated_gradients(model, pair.placed, mask_id)
        texts = {Side.QUESTION: sample.question, Side.TITLE: sample.passage.title}
        texts[Side.PASSAGE] = sample.passage.text
        players = players_of(pair.read.pieces, Unit.WORD, texts, {})
        return [sum(values[piece] for piece in player.pieces) for player in players]

    return of
