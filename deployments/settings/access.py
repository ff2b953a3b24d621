"""Settings of the HTTP API: who may ask, how much, and what is admitted."""

from pydantic import Field

from crag_core.settings import Settings
from crag_core.types import PipelineName


class AccessSettings(Settings):
    """Who may ask, and from which pages."""

    required: bool | None = Field(
        None, description="Whether a request needs an API key; null means: outside loopback."
    )
    keys_file: str | None = Field(
        None, description="File of API keys (`crag key add`), read again when it changes."
    )
    cors_origins: tuple[str, ...] = Field(
        (), description="Origins whose pages may ask from a browser; none by default."
    )


class ApiSettings(Settings):
    """Limits of the HTTP API."""

    max_question_characters: int = Field(4_000, ge=1, description="Characters of a question.")
    max_documents: int = Field(100, ge=1, le=100, description="Documents sent with a question.")
    max_document_characters: int = Field(100_000, ge=1, description="Characters of one document.")
    max_documents_characters: int = Field(
        2_000_000, ge=1, description="Characters of all documents of a request together."
    )
    max_rerank_documents: int = Field(
        10_000, ge=1, le=10_000, description="Documents of one rerank request."
    )
    max_explained_characters: int = Field(
        20_000, ge=1, description="Characters of a passage whose score is explained."
    )
    max_explain_evaluations: int = Field(
        4_096, ge=16, description="Masked inputs that one explanation may ask for."
    )
    default_explain_evaluations: int = Field(
        512, ge=16, description="Masked inputs of an explanation that asks for no number, at most."
    )
    max_body_bytes: int = Field(8_000_000, ge=1_000, description="Bytes of a request's body.")
    max_body_s: float = Field(30.0, gt=0, description="Seconds in which a body must have arrived.")
    default_timeout_s: float = Field(60.0, gt=0, description="Deadline of a request that names none.")
    max_timeout_s: float = Field(300.0, gt=0, description="Longest deadline a client may ask for.")
    default_pipeline: PipelineName = Field(PipelineName.CRAG, description="Used when none is named.")
    access: AccessSettings = Field(default_factory=AccessSettings, description="Who may ask.")


class AdmissionSettings(Settings):
    """Who is let in; the limits hold for the whole cluster, however many ingresses there are."""

    max_wait_s: float = Field(
        10.0,
        gt=0,
        description="Predicted wait behind what is in the cluster, beyond which a request is refused.",
    )
    batch_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of the limits up to which the lane `batch` is let in; the rest is kept for "
        "interactive requests.",
    )
    headroom: float = Field(
        0.8,
        gt=0,
        le=1,
        description="A request is refused when its predicted time exceeds this share of what it has.",
    )
    max_in_flight: int = Field(
        800,
        ge=1,
        description="Requests in the cluster at most, also while nothing is learned yet; less than all "
        "ingresses' `max_ongoing_requests`, or a refusal would have to queue.",
    )
    max_retry_after_s: float = Field(60.0, ge=1, description="Longest Retry-After.")
    requests_per_minute: int | None = Field(
        None, ge=1, description="Requests of one key, or address without one; null sets no limit."
    )
    burst: int = Field(20, ge=1, description="Requests that a key may send at once after a quiet time.")
