"""The settings of CompactRAG's online path."""

from typing import Self

from pydantic import Field

from crag_core.settings import Settings


class PlanLimits(Settings):
    """How much of a plan is resolved."""

    max_sub_questions: int = Field(8, ge=1, le=32, description="Later sub-questions are dropped.")
    max_levels: int = Field(7, ge=1, le=32, description="Deeper sub-questions are dropped.")


class CompactSettings(Settings):
    """Pipeline `compact`; the synthesis follows `crag.generation`, as every answer does."""

    limits: PlanLimits = Field(default_factory=PlanLimits, description="How much of a plan is resolved.")
    plan_max_new_tokens: int = Field(384, ge=16, description="Tokens of the decomposition at most.")
    guided_plan: bool = Field(
        True, description="Whether decoding of the decomposition is guided by its JSON schema."
    )
    pairs_per_hop: int = Field(5, ge=1, le=50, description="Pairs kept per sub-question, at least.")
    pairs_per_question: int = Field(
        20,
        ge=1,
        le=200,
        description="Pairs that the sub-questions of a question share: few of them get more each.",
    )
    min_pair_score: float = Field(
        0.4,
        ge=-1.0,
        le=1.0,
        description="Where no pair's cosine reaches this, passages of the corpus are read instead.",
    )
    fallback_passages: int = Field(
        2, ge=0, le=10, description="Passages read where no pair is close enough; 0 reads none."
    )
    max_passage_words: int = Field(120, ge=10, description="Words of such a passage.")

    def with_retrieve_limit(self, limit: int | None) -> Self:
        """These settings where a request says how many pairs its question gets; `None` keeps them.

        Every sub-question gets one at least, and no more passages than that in their place.
        """
        if limit is None:
            return self
        return self.model_copy(
            update={
                "pairs_per_hop": 1,
                "pairs_per_question": limit,
                "fallback_passages": min(self.fallback_passages, limit),
            }
        )
