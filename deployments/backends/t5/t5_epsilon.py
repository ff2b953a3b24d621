"""A T5 evaluator's epsilon: how far rounding moves its scores, measured on real pairs."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from crag_core.errors import InvalidQuestion, SettingsError
from crag_core.types import Passage
from deployments.backends.evaluators.evaluator_manifest import EvaluatorKind, load_manifest
from deployments.backends.t5.t5_scorer import T5Scorer
from deployments.settings import EvaluatorSettings

_SAFETY_FACTOR = 2
"""No measurement meets the worst pair there is."""


def measured_epsilon(
    settings: EvaluatorSettings, questions: Iterable[tuple[str, Sequence[Passage]]], pairs: int
) -> float:
    """Twice the largest distance of so many scores in the manifest's dtype to those in float32.

    Raises SettingsError when the folder is no T5 evaluator in less than float32, or pairs are too few.
    """
    folder = Path(settings.model)
    manifest = load_manifest(folder)
    if manifest.kind is not EvaluatorKind.T5 or manifest.dtype == "float32":
        raise SettingsError(
            f"{folder} is of kind {manifest.kind} in {manifest.dtype}: only a t5 in bfloat16 is "
            "rounded, and has an epsilon to measure"
        )
    scorer = T5Scorer(folder, manifest, settings)
    inputs: dict[tuple[int, ...], None] = {}
    for question, passages in questions:
        try:
            tokenized = scorer.tokenize(question, passages)
        except InvalidQuestion:
            continue  # the evaluator refuses it too
        inputs |= {tuple(tokens.ids): None for tokens in tokenized if tokens}
        if len(inputs) >= pairs:
            return _SAFETY_FACTOR * scorer.engine.rounding_error(list(inputs)[:pairs])
    raise SettingsError(f"the data has {len(inputs)} different pairs, {pairs} are asked for")
