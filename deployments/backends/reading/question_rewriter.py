"""The sub-question rewriter: a small sequence-to-sequence model (Flan-T5) with beams.

Reads `Q: <question> | prev_answer: <answer>`, writes the question with its reference resolved.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from crag_core.compact.types import Rewriting
from crag_core.errors import SettingsError, StageFailed
from deployments.backends.device import torch_device
from deployments.backends.model_folder import model_folder, tokenizer_file, weights_file
from deployments.settings import RewriterSettings

PER_BATCH = 16
"""Questions of a forward pass at most."""

_MAX_QUESTION_WORDS = 60
_MAX_ENTITY_WORDS = 20


class BeamRewriter:
    """Rewrites questions in batches; what it writes is to be checked by its caller."""

    def __init__(self, model: Any, tokenizer: Any, settings: RewriterSettings) -> None:
        self._settings, self._tokenizer = settings, tokenizer
        self._model, self._device = model.eval(), model.device

    @classmethod
    def open(cls, settings: RewriterSettings) -> "BeamRewriter":
        """Raises SettingsError when the folder holds no sequence-to-sequence model."""
        folder = model_folder(settings.model, settings.revision)
        device = torch_device(settings.device)
        tokenizer_file(folder)
        weights_file(folder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model = AutoModelForSeq2SeqLM.from_pretrained(
                folder, trust_remote_code=False, dtype=torch.float32
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise SettingsError(f"{folder} holds no rewriter that can be loaded: {error}") from error
        return cls(model.to(device), tokenizer, settings)

    def rewrite(self, rewritings: Sequence[Rewriting]) -> list[str | None]:
        """One text per rewriting, in order.

        `None` where the vocabulary cannot spell the answer, which the model would garble. Raises
        StageFailed when the model fails.
        """
        texts: list[str | None] = [None] * len(rewritings)
        spelled = [place for place, each in enumerate(rewritings) if self._can_spell(each.entity)]
        for first in range(0, len(spelled), PER_BATCH):
            batch = spelled[first : first + PER_BATCH]
            for place, text in zip(batch, self._written([rewritings[i] for i in batch]), strict=True):
                texts[place] = text
        return texts

    @torch.inference_mode()
    def _written(self, rewritings: Sequence[Rewriting]) -> list[str]:
        inputs = self._tokenizer(
            [model_input(rewriting) for rewriting in rewritings],
            max_length=self._settings.max_input_tokens,
            truncation=True,
            padding=True,
            return_tensors="pt",
        ).to(self._device)
        try:
            written = self._model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                max_new_tokens=self._settings.max_new_tokens,
                num_beams=self._settings.beams,
                early_stopping=self._settings.beams > 1,
                do_sample=False,
            )
        except (RuntimeError, ValueError, IndexError) as error:
            raise StageFailed("the sub-question rewriter failed on a batch") from error
        decoded: list[str] = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return [text.strip() for text in decoded]

    def _can_spell(self, entity: str) -> bool:
        readable = entity.encode("utf-8", "replace").decode("utf-8")
        ids = self._tokenizer(readable, add_special_tokens=False)["input_ids"]
        return bool(ids) and self._tokenizer.unk_token_id not in ids


def model_input(rewriting: Rewriting) -> str:
    """The input, the question cut rather than the answer, which stands last."""
    question = " ".join(rewriting.question.split()[:_MAX_QUESTION_WORDS])
    entity = " ".join(rewriting.entity.split()[:_MAX_ENTITY_WORDS])
    text = f"Q: {question} | prev_answer: {entity}"
    return text.encode("utf-8", "replace").decode("utf-8")
