"""A T5 evaluator of a published size with random weights, a real vocabulary, and thresholds that tell.

Speed does not depend on the weights. The thresholds lie where they give the actions the shares that
they have on PopQA, so that every action is taken, and in the middle between two scores.
"""

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace
from tokenizers.trainers import UnigramTrainer
from transformers import T5Tokenizer

from benchmarks.engine.shapes import Shape, random_t5
from crag_core.context import RequestContext
from crag_core.settings import RefinementSettings
from crag_core.strips import decompose
from crag_core.types import Document, Passage
from deployments.backends.batching.pair_scorer import score_passages
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    EvaluatorThresholds,
    PassageForm,
    write_manifest,
)
from deployments.backends.evaluators.scorer import load_scorer
from deployments.backends.model_folder import sha256_of, tokenizer_file, weights_file, weights_sha256
from deployments.messages import RetrieveRequest, WireContext
from deployments.retriever import Retriever
from deployments.settings import EvaluatorSettings, RetrieverSettings

_FOLDER = Path(".cache/evaluators")
_VOCABULARY = 8_000
_SENTINELS = 100
_SPECIALS = (("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0))
_STRIPS_OF = 4
_UPPER_SHARE, _LOWER_SHARE, _STRIP_SHARE = 0.456, 0.182, 0.3
"""Of the questions' best scores, those below the thresholds, as on PopQA; of strips, those dropped."""


def t5_evaluator(
    shape: Shape,
    dtype: str,
    texts: Sequence[str],
    questions: Sequence[str],
    retriever: RetrieverSettings,
) -> Path:
    """The folder of an evaluator of this shape, made once.

    Its vocabulary is learnt from `texts`, its thresholds from what is retrieved for `questions`.
    """
    folder = _FOLDER / f"t5-{shape}-{dtype}"
    if folder.exists():
        return folder
    aside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    _tokenizer(texts).save_pretrained(aside)
    random_t5(shape.config).save_pretrained(aside)
    _manifest(aside, dtype, EvaluatorThresholds(upper=0, lower=0, strip=0))
    documents = asyncio.run(_retrieved(questions, retriever))
    _manifest(aside, dtype, _thresholds(aside, questions, documents))
    aside.rename(folder)
    return folder


def _tokenizer(texts: Sequence[str]) -> T5Tokenizer:
    learning = Tokenizer(Unigram())
    learning.pre_tokenizer = Metaspace()
    trainer = UnigramTrainer(vocab_size=_VOCABULARY, unk_token="<unk>", special_tokens=["<unk>"])
    learning.train_from_iterator(texts, trainer)
    learnt = json.loads(learning.to_str())["model"]["vocab"]
    pieces = [(piece, score) for piece, score in learnt if piece != "<unk>"]
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in reversed(range(_SENTINELS))]
    return T5Tokenizer(vocab=[*_SPECIALS, *pieces, *sentinels], extra_ids=_SENTINELS)


def _manifest(folder: Path, dtype: str, thresholds: EvaluatorThresholds) -> None:
    weights = weights_file(folder)
    manifest: dict[str, Any] = {
        "format": 1,
        "kind": EvaluatorKind.T5,
        "weights": weights.name,
        "weights_sha256": weights_sha256(folder, weights.name),
        "tokenizer_sha256": sha256_of(tokenizer_file(folder)),
        "template": "{question} [SEP] {passage}",
        "passage_form": PassageForm.TEXT,
        "max_tokens": 512,
        "dtype": dtype,
        "thresholds": thresholds,
        "epsilon": 1e-5 if dtype == "float32" else 0.05,
        "trained_on": "nothing: random weights",
        "command": "python -m benchmarks peers",
    }
    write_manifest(folder, EvaluatorManifest.model_validate(manifest))


async def _retrieved(questions: Sequence[str], settings: RetrieverSettings) -> list[Sequence[Document]]:
    retriever = Retriever(settings)
    ctx = RequestContext.starting_now("calibration", 600)
    return [
        await retriever.retrieve(RetrieveRequest(WireContext.of(ctx), question, 10))
        for question in questions
    ]


def _thresholds(
    folder: Path, questions: Sequence[str], documents: Sequence[Sequence[Document]]
) -> EvaluatorThresholds:
    scorer = load_scorer(EvaluatorSettings.model_validate({"model": str(folder), "threads": 2}))

    def scores(question: str, texts: Sequence[str]) -> list[float]:
        scored = score_passages(scorer, question, [Passage(text) for text in texts])
        return [one.score for one in scored if one.score is not None]

    pairs = list(zip(questions, documents, strict=True))
    best = [max(scores(question, [doc.text for doc in found])) for question, found in pairs]
    strips = [
        score
        for question, found in pairs[:4]
        for score in scores(
            question, [s.text for d in found for s in decompose(d, RefinementSettings())]
        )
    ]
    return EvaluatorThresholds(
        upper=_between(best, _UPPER_SHARE),
        lower=_between(best, _LOWER_SHARE),
        strip=_between(strips, _STRIP_SHARE),
    )


def _between(scores: Sequence[float], share: float) -> float:
    """The middle between two neighbouring scores, with this share of them below."""
    ordered = sorted(scores)
    place = min(max(1, round(share * len(ordered))), len(ordered) - 1)
    return (ordered[place - 1] + ordered[place]) / 2
