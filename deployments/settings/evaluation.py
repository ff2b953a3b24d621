"""Settings of the evaluator, of its batches and of explanations."""

from pydantic import Field

from crag_core.settings import Settings


class BatchingSettings(Settings):
    """The evaluator's batching."""

    max_tokens_per_batch: int = Field(
        4096, ge=64, description="Tokens per forward pass; one longer pair goes alone."
    )
    window_batches: int = Field(
        1,
        ge=1,
        description="Full batches within which pairs of similar length are sought: 1 keeps the pairs "
        "of a request together, more saves padding in a scorer that pads.",
    )
    max_passed_over: int = Field(
        8, ge=1, description="A pair passed over by so many batches joins the next one."
    )
    background_quantum_s: float = Field(
        0.1,
        gt=0,
        description="Predicted device time of a batch of the lanes `batch` and `explain`, which is "
        "what an interactive pair may have to wait for one.",
    )
    explain_share: float = Field(
        0.1,
        gt=0,
        le=1,
        description="Share of the device's time that explanations may take while answers are made, "
        "which may share its card or its cores; all of it else.",
    )
    answer_lasts_s: float = Field(
        5.0, ge=0, description="An answer is taken to be in the making so long after its last score."
    )
    cached_scores: int = Field(50_000, ge=0, description="Scores kept for repeated pairs; 0 keeps none.")
    stalled_after_s: float = Field(
        60.0, gt=0, description="A device that shows no progress for so long is reported as unhealthy."
    )


class EvaluatorSettings(Settings):
    """The retrieval evaluator; thresholds and templates live in its manifest."""

    model: str = Field(description="Folder with weights and `evaluator.json`.")
    encoder: str | None = Field(
        None, description="Encoder folder or hub name, for a manifest of kind `embedding_head`."
    )
    device: str = Field("cpu", description="Torch device, such as cpu or cuda.")
    threads: int = Field(1, ge=1, description="CPU threads of a forward pass.")
    batching: BatchingSettings = Field(
        default_factory=BatchingSettings, description="How pairs of many questions share a pass."
    )


class ExplainSettings(Settings):
    """Explanations of the evaluator's scores."""

    entities: str | None = Field(
        None,
        description="Folder or installed package of a spaCy pipeline with `ner`, which finds names "
        "beside those that the rules find; null takes the rules alone.",
    )
    remembered: int = Field(1_000, ge=0, description="Explanations kept for pairs that come again.")
