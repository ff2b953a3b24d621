"""The models as a tutorial runs them: Hugging Face's forward in float32, one input at a time."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import normalize
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from crag_core.context import RequestContext
from crag_core.protocols import Evaluation
from crag_core.types import Completion, Passage, Prompt, Sampling, Score, TokenUsage
from deployments.backends.chat_template import ChatTemplate
from deployments.backends.evaluators.evaluator_head import EvaluatorHead, Floats, pair_features
from deployments.backends.evaluators.evaluator_manifest import (
    EvaluatorKind,
    EvaluatorManifest,
    load_manifest,
)
from deployments.backends.model_folder import model_folder
from deployments.settings import EvaluatorSettings, GeneratorSettings

ScoreOne = Callable[[str, Passage], Score]


@dataclass(frozen=True, slots=True)
class PlainEvaluator:
    """Scores the passages of a question one after the other."""

    manifest: EvaluatorManifest
    score: ScoreOne

    async def evaluate(
        self, ctx: RequestContext, question: str, passages: Sequence[Passage]
    ) -> Evaluation:
        """One entry per passage, in order."""
        scores = [self.score(question, p) if p.text.strip() else None for p in passages]
        return Evaluation(
            tuple(scores),
            (False,) * len(scores),
            self.manifest.thresholds.action(),
            self.manifest.thresholds.strip,
            self.manifest.evaluator_id,
        )


def plain_evaluator(settings: EvaluatorSettings) -> PlainEvaluator:
    """The evaluator in a folder: a T5, or a head over an encoder. Raises SettingsError."""
    folder = model_folder(settings.model)
    manifest = load_manifest(folder)
    match manifest.kind:
        case EvaluatorKind.T5 | EvaluatorKind.SEQUENCE_CLASSIFIER:
            return PlainEvaluator(manifest, _classifier(folder, manifest))
        case EvaluatorKind.EMBEDDING_HEAD:
            assert settings.encoder is not None
            return PlainEvaluator(manifest, _head(folder, manifest, settings.encoder))


def _classifier(folder: Path, manifest: EvaluatorManifest) -> ScoreOne:
    """As the CRAG authors' scripts call theirs: every pair padded to the longest."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    model.eval()

    @torch.inference_mode()
    def score(question: str, passage: Passage) -> Score:
        assert manifest.template is not None
        text = manifest.template.format(question=question, passage=manifest.passage_form.of(passage))
        inputs = tokenizer(
            text,
            padding="max_length",
            truncation=True,
            max_length=manifest.max_tokens,
            return_tensors="pt",
        )
        logit: float = model(**inputs).logits.item()
        return logit

    return score


def _head(folder: Path, manifest: EvaluatorManifest, encoder: str) -> ScoreOne:
    """As sentence-transformers embeds one text: no padding, mean pooling, length 1."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model: Any = AutoModel.from_pretrained(encoder, dtype=torch.float32)
    model.eval()
    head = EvaluatorHead.load(folder / manifest.weights)

    @torch.inference_mode()
    def embedded(text: str) -> Floats:
        inputs = tokenizer(text, truncation=True, max_length=manifest.max_tokens, return_tensors="pt")
        pooled = model(**inputs).last_hidden_state.mean(1)
        embedding: Floats = normalize(pooled, dim=-1)[0].numpy()
        return embedding

    def score(question: str, passage: Passage) -> Score:
        text = manifest.passage_form.of(passage)
        features = pair_features(question, embedded(question), [passage], embedded(text)[None])
        return head.scores(features)[0]

    return score


class PlainGenerator:
    """Hugging Face's `generate`: one prompt at a time, greedy."""

    def __init__(self, settings: GeneratorSettings) -> None:
        """Loads the model in the settings' dtype."""
        folder = model_folder(settings.model, settings.revision)
        self._template = ChatTemplate(settings.model, settings.revision)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=settings.dtype)
        self._model = model.eval()

    async def generate(
        self, ctx: RequestContext, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Completion]:
        """The whole completion in one piece."""
        prompt_ids = torch.tensor([self._template.encode(prompt)])
        with torch.inference_mode():
            ids = self._model.generate(
                prompt_ids,
                attention_mask=torch.ones_like(prompt_ids),
                max_new_tokens=sampling.max_new_tokens,
                do_sample=False,
                pad_token_id=self._tokenizer.pad_token_id,
            )
        new = ids[0, prompt_ids.shape[1] :]
        text = self._tokenizer.decode(new, skip_special_tokens=True)
        yield Completion(text, "stop", TokenUsage(prompt_ids.shape[1], len(new)))
