"""The core's settings: frozen, no unknown key, a default and a description for every field."""

import math
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from crag_core.types import EvidenceQuality


class Settings(BaseModel):
    """The base of every settings class: a misspelt key is an error, and nothing changes later."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ActionThresholds(Settings):
    """The two thresholds of the action trigger, signed, as compared."""

    upper: float = Field(description="A best score at or above this means CORRECT.")
    lower: float = Field(description="A best score below this means INCORRECT.")

    @model_validator(mode="after")
    def _finite_and_ordered(self) -> Self:
        if not (math.isfinite(self.upper) and math.isfinite(self.lower)):
            raise ValueError(
                f"thresholds must be finite numbers, got upper {self.upper} and lower {self.lower}"
            )
        if self.upper < self.lower:
            raise ValueError(
                f"upper threshold {self.upper} is below lower threshold {self.lower}: swap them"
            )
        return self


class DecomposeMode(StrEnum):
    """How a document is cut into knowledge strips (names of the released code, and our default)."""

    SENTENCES = "sentences"
    FIXED_NUM = "fixed_num"
    EXCERPTION = "excerption"
    SELECTION = "selection"


class StripFilter(StrEnum):
    """Which rule keeps strips: the original's, or the reproduction's."""

    TOP = "top"
    THRESHOLD_THEN_TOP = "threshold_then_top"


class RecomposeOrder(StrEnum):
    """The order in which kept strips reach the generator."""

    DOCUMENT = "document"
    SCORE = "score"


class StripFallback(StrEnum):
    """What stands in when no strip is above the threshold."""

    BEST_DOCUMENT = "best_document"
    NONE = "none"


class CorrectScope(StrEnum):
    """Which internal documents CORRECT refines."""

    ALL = "all"
    ABOVE_UPPER = "above_upper"


class EvidenceForm(StrEnum):
    """How strips are written into the prompt: numbered for citations, or joined as the papers do."""

    NUMBERED = "numbered"
    JOINED = "joined"


class NoEvidence(StrEnum):
    """What happens when no evidence is left: say so, or let the generator answer from memory."""

    ABSTAIN = "abstain"
    ANSWER = "answer"


class RefinementSettings(Settings):
    """Knowledge refinement: decompose, filter, recompose."""

    mode: DecomposeMode = Field(
        DecomposeMode.SENTENCES, description="How documents are cut into strips."
    )
    sentences_per_strip: int = Field(
        3, ge=1, description="Sentences in one strip (`sentences`), or pieces (`excerption`)."
    )
    words_per_strip: int = Field(50, ge=1, description="Words in one strip (`fixed_num`).")
    min_strip_words: int = Field(4, ge=0, description="Strips with fewer words are dropped unscored.")
    filter: StripFilter = Field(
        StripFilter.THRESHOLD_THEN_TOP, description="The rule that keeps strips."
    )
    max_strips: int = Field(5, ge=1, description="Strips kept at most, best first.")
    strip_min_score: float | None = Field(
        None, description="Strips below this are dropped; null takes the evaluator's own."
    )
    order: RecomposeOrder = Field(
        RecomposeOrder.DOCUMENT, description="Order of the kept strips in the prompt."
    )
    fallback: StripFallback = Field(
        StripFallback.BEST_DOCUMENT, description="What stands in when no strip is kept."
    )
    correct_scope: CorrectScope = Field(
        CorrectScope.ABOVE_UPPER, description="Documents that CORRECT refines."
    )
    max_documents: int | None = Field(
        3, ge=1, description="Documents that CORRECT refines at most, best first; null means all."
    )
    max_strip_words: int = Field(
        200, ge=10, description="A longer run without a sentence end is cut at a word."
    )
    max_strips_scored: int = Field(
        500, ge=1, description="Strips of one side scored at most; later ones are left out."
    )
    max_document_words: int = Field(
        400, ge=10, description="Words of a document that is used whole (`rag`, `best_document`)."
    )


class GenerationSettings(Settings):
    """The prompt and how it is completed."""

    max_new_tokens: int = Field(100, ge=1, description="Tokens generated at most.")
    temperature: float = Field(0.0, ge=0.0, le=2.0, description="0 is greedy.")
    top_p: float = Field(1.0, gt=0.0, le=1.0, description="Nucleus sampling; 1 keeps every token.")
    stop: tuple[str, ...] = Field((), max_length=4, description="Texts that end a completion.")
    seed: int | None = Field(None, description="Seed of the sampling; null draws one.")
    prompt_token_budget: int = Field(
        1900,
        ge=64,
        description="Prompt tokens at most, evidence included; Phi-3-mini-4k fails past 2,047.",
    )
    watched_prompt_tokens: int | None = Field(
        None,
        ge=1,
        description="The first words after a prompt this long are held back until they are known not to "
        "be gibberish, which gets one more try with half the prompt; null watches none.",
    )
    evidence_form: EvidenceForm = Field(
        EvidenceForm.NUMBERED, description="How strips are written into the prompt."
    )
    joiner: str = Field("; ", description="Stands between strips when they are joined.")


class SpeculationSettings(Settings):
    """What is begun before the action is known, when the evaluator has time to spare."""

    strips: bool = Field(
        False,
        description="Whether strips are scored along with their documents; saves a round trip where the "
        "evaluator's device is faster than the question's way to it, as a GPU is.",
    )
    search: bool = Field(
        False,
        description="Whether the web is searched at once; hides the search behind the evaluation, at "
        "the price of searches for questions that turn out CORRECT.",
    )
    max_queue_delay_s: float = Field(
        0.01,
        ge=0,
        description="Nothing is begun ahead while questions lately waited longer for the evaluator.",
    )


class SearchingSettings(Settings):
    """What the core does with the pages that a search finds."""

    same_name_margin: float = Field(
        0.1,
        ge=0.0,
        description="Of pages that share an ambiguous name, those that score so close to the best are "
        "read too; a share of the distance between the action thresholds.",
    )
    whole_pages: bool = Field(
        True,
        description="Whether the best page is read in full when no strip of a lead is above the "
        "threshold.",
    )


class CragSettings(Settings):
    """The corrective pipeline and its two baselines."""

    thresholds: ActionThresholds | None = Field(
        None, description="Overrides the thresholds of the evaluator's manifest."
    )
    retrieve_limit: int = Field(10, ge=1, le=100, description="Documents retrieved per question.")
    rag_documents: int = Field(
        10, ge=1, le=100, description="Documents that pipeline `rag` reads, best first."
    )
    search: bool = Field(True, description="Whether INCORRECT and AMBIGUOUS search the web.")
    search_limit: int = Field(5, ge=1, le=20, description="Web documents taken per search.")
    searching: SearchingSettings = Field(
        default_factory=SearchingSettings, description="Choosing among the pages found."
    )
    no_evidence: NoEvidence = Field(
        NoEvidence.ABSTAIN, description="What happens when no evidence is left."
    )
    weak_evidence: NoEvidence = Field(
        NoEvidence.ANSWER,
        description="What happens when no strip anywhere reaches the strip threshold: answer from the "
        "best there is, or say that there is not enough evidence.",
    )
    min_quality: EvidenceQuality = Field(
        EvidenceQuality.NONE, description="Weaker evidence than this is an error, not an answer."
    )
    refinement: RefinementSettings = Field(
        default_factory=RefinementSettings, description="Knowledge refinement."
    )
    generation: GenerationSettings = Field(
        default_factory=GenerationSettings, description="Prompt and completion."
    )
    speculation: SpeculationSettings = Field(
        default_factory=SpeculationSettings, description="What is begun before the action is known."
    )

    def with_options(self, options: "AnswerOptions", sampling: "SamplingOptions") -> Self:
        """These settings with one request's options laid over them; fields left out change nothing."""
        refinement = {
            "max_strips": options.max_strips,
            "strip_min_score": options.strip_min_score,
            "order": options.recompose_order,
        }
        generation = {
            "max_new_tokens": options.max_new_tokens,
            "temperature": options.temperature,
            "top_p": sampling.top_p,
            "stop": sampling.stop,
            "seed": sampling.seed,
        }
        no_evidence = None
        if options.force_answer is not None:
            no_evidence = NoEvidence.ANSWER if options.force_answer else NoEvidence.ABSTAIN
        top = {
            "thresholds": options.thresholds,
            "retrieve_limit": options.retrieve_limit,
            "rag_documents": options.rag_documents,
            "search": options.search,
            "no_evidence": no_evidence,
            "weak_evidence": no_evidence,
            "min_quality": options.min_quality,
            "refinement": self.refinement.model_copy(update=_given(refinement)),
            "generation": self.generation.model_copy(update=_given(generation)),
        }
        return self.model_copy(update=_given(top))


class AnswerOptions(Settings):
    """What one request may change; every field left out (or null) keeps the application's setting."""

    retrieve_limit: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Documents retrieved; `compact`: pairs that the sub-questions of a question share, "
        "one each at least.",
    )
    rag_documents: int | None = Field(None, ge=1, le=100, description="Documents `rag` reads.")
    thresholds: ActionThresholds | None = Field(None, description="Action thresholds.")
    max_strips: int | None = Field(None, ge=1, le=50, description="Strips kept at most.")
    strip_min_score: float | None = Field(
        None, allow_inf_nan=False, description="Strips below this are dropped."
    )
    recompose_order: RecomposeOrder | None = Field(None, description="Order of the kept strips.")
    search: bool | None = Field(None, description="Whether the web may be searched.")
    force_answer: bool | None = Field(
        None,
        description="Answer from weak evidence, or from memory, rather than say that there is not "
        "enough evidence; false says so in both cases.",
    )
    max_new_tokens: int | None = Field(None, ge=1, le=1024, description="Tokens generated at most.")
    temperature: float | None = Field(None, ge=0.0, le=2.0, description="0 is greedy.")
    min_quality: EvidenceQuality | None = Field(
        None, description="Weaker evidence than this is an error."
    )


class SamplingOptions(Settings):
    """What the OpenAI route may change beside `AnswerOptions`."""

    top_p: float | None = Field(None, gt=0.0, le=1.0, description="Nucleus sampling.")
    stop: tuple[str, ...] | None = Field(None, max_length=4, description="Texts that end it.")
    seed: int | None = Field(None, description="Seed of the sampling.")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
