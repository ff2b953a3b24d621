"""The application's settings: `AppSettings` is the `args:` block of a Serve config file."""

from enum import StrEnum
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from crag_core.compact.settings import CompactSettings
from crag_core.settings import CragSettings, Settings
from crag_core.types import DocumentSource, PipelineName

_WIKIMEDIA = ("wikipedia.org", "wikimedia.org", "wikidata.org")


class Pooling(StrEnum):
    """How token embeddings become one embedding."""

    MEAN = "mean"
    CLS = "cls"


class PageText(StrEnum):
    """What of a page becomes its text in a snapshot that is built from a dump."""

    LEAD = "lead"
    PAGE = "page"


class EncoderSettings(Settings):
    """A dense encoder: a Hugging Face encoder with pooling (Contriever, MiniLM)."""

    model: str = Field(description="Folder or hub name of the encoder.")
    revision: str | None = Field(None, description="Pinned hub revision; null for a folder.")
    pooling: Pooling = Field(Pooling.MEAN, description="How token embeddings are pooled.")
    normalise: bool = Field(True, description="Whether embeddings are scaled to length 1.")
    max_tokens: int = Field(256, ge=8, description="Longer texts are truncated here.")
    max_tokens_per_batch: int = Field(4096, ge=64, description="Padded tokens per forward pass.")


class RetrieverSettings(Settings):
    """The static corpus: one index, searched by text and by vector, fused by reciprocal rank."""

    index: str = Field(description="Folder or object-store URI of a passage index.")
    encoder: EncoderSettings = Field(description="Must be the encoder the index was built with.")
    candidates: int = Field(50, ge=1, description="Hits taken from each side before fusion.")
    rrf_k: int = Field(60, ge=1, description="Constant of reciprocal rank fusion.")


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


class GeneratorSettings(Settings):
    """The generator: a chat model in vLLM."""

    model: str = Field(description="Folder or hub name of the chat model.")
    revision: str | None = Field(None, description="Pinned hub revision; null for a folder.")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto", description="Weights and activations."
    )
    max_model_len: int = Field(4096, ge=128, description="Prompt and completion tokens at most.")
    max_num_seqs: int = Field(64, ge=1, description="Completions in flight in one engine.")
    gpu_memory_utilization: float = Field(
        0.9, gt=0.0, le=1.0, description="Share of the card that the engine may fill."
    )
    tensor_parallel_size: int = Field(1, ge=1, description="GPUs one engine is split over.")
    enforce_eager: bool = Field(False, description="Run without CUDA graphs; needed on a CPU.")
    wait_for_evaluator: bool = Field(
        False, description="Start only once the evaluator is resident: needed on a shared GPU."
    )


class SearchBudgetSettings(Settings):
    """What all replicas together may ask of one wiki."""

    requests_per_minute: int = Field(
        180,
        ge=1,
        description="Requests in any 60 seconds at most, bursts included. Wikimedia allows 200 to an "
        "unauthenticated client that names its operator.",
    )
    burst: int = Field(10, ge=1, description="Requests that may be sent at once after a quiet time.")
    max_in_flight: int = Field(3, ge=1, description="Requests in flight in the whole cluster.")
    max_waiting: int = Field(
        256, ge=1, description="Queries that wait for the budget; more fail at once."
    )
    lease_s: float = Field(
        8.0, gt=0, description="A request whose replica has not reported its end by then has none."
    )
    pause_s: float = Field(
        1.0,
        gt=0,
        description="Pause for everybody when the wiki throttles without saying for how long; doubled "
        "each time until it answers.",
    )
    max_pause_s: float = Field(
        3_600.0,
        gt=0,
        description="A longer Retry-After counts as this one; then the wiki is asked again.",
    )
    retry_share: float = Field(
        0.15, ge=0.0, le=0.5, description="Retries per request in the long run, over all replicas."
    )
    failures_in_a_row: int = Field(5, ge=1, description="So many failures in a row open the circuit.")
    failure_share: float = Field(
        0.5, gt=0.0, le=1.0, description="So do so many failures among the last requests."
    )
    failure_window: int = Field(20, ge=2, description="How many last requests those are.")
    open_s: float = Field(
        5.0, gt=0, description="An open circuit lets one probe pass after so long; doubled if it fails."
    )
    max_open_s: float = Field(30.0, gt=0, description="Longest time between two probes.")
    share_when_lost: float = Field(
        0.1,
        gt=0.0,
        le=1.0,
        description="Share of `requests_per_minute` that a replica grants itself while it cannot reach "
        "the shared budget: at most one divided by the number of replicas.",
    )

    @model_validator(mode="after")
    def _burst_within_a_minute(self) -> Self:
        if self.burst >= self.requests_per_minute:
            raise ValueError(
                f"burst {self.burst} leaves nothing of requests_per_minute "
                f"{self.requests_per_minute} for the rest of the minute: lower it"
            )
        return self

    @property
    def rate_per_s(self) -> float:
        """Requests per second in the long run: what a full burst leaves of a minute."""
        return (self.requests_per_minute - self.burst) / 60

    def when_lost(self) -> "SearchBudgetSettings":
        """The budget of a replica on its own."""
        per_minute = max(2, int(self.requests_per_minute * self.share_when_lost))
        return self.model_copy(
            update={"requests_per_minute": per_minute, "burst": 1, "max_in_flight": 1}
        )


class SearchCacheSettings(Settings):
    """Answers of a wiki that all replicas share; a bound of 0 seconds keeps none of that kind."""

    ttl_s: float = Field(1_800.0, ge=0, description="An answer with a page is fresh for so long.")
    negative_ttl_s: float = Field(90.0, ge=0, description="An answer without one is fresh for so long.")
    stale_s: float = Field(
        86_400.0, ge=0, description="When the wiki fails, an answer up to so old is used instead."
    )
    max_bytes: int = Field(64_000_000, ge=1_000, description="Bytes of all answers.")
    max_entries: int = Field(50_000, ge=1, description="Number of answers.")
    max_entry_bytes: int = Field(500_000, ge=1, description="A larger answer is not kept.")


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
        "en_core_web_sm", description="Folder or installed package of a spaCy pipeline with `ner`."
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


class ExplainSettings(Settings):
    """Explanations of the evaluator's scores."""

    entities: str | None = Field(
        None,
        description="Folder or installed package of a spaCy pipeline with `ner`, which finds names "
        "beside those that the rules find; null takes the rules alone.",
    )
    remembered: int = Field(1_000, ge=0, description="Explanations kept for pairs that come again.")


class MediaWikiSettings(Settings):
    """A MediaWiki's Action API."""

    api_url: str = Field("https://en.wikipedia.org/w/api.php", description="Address of the Action API.")
    contact: str | None = Field(
        None,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="The operator's mail address or page, for the User-Agent; Wikimedia demands it.",
    )
    timeout_s: float = Field(6.0, gt=0, description="One look-up takes at most this long.")
    max_response_bytes: int = Field(4_000_000, ge=1_000, description="Longer answers are refused.")
    max_attempts: int = Field(3, ge=1, le=4, description="Requests for one query, retries included.")
    maxlag_s: int = Field(
        5, ge=1, description="Requests of the lane `batch` yield to a wiki whose databases lag so far."
    )
    budget: SearchBudgetSettings = Field(
        default_factory=SearchBudgetSettings, description="What all replicas together may ask of it."
    )
    cache: SearchCacheSettings = Field(
        default_factory=SearchCacheSettings, description="Its answers, kept for all replicas."
    )

    @property
    def host(self) -> str:
        """The wiki's host, as messages and metrics name it."""
        return urlsplit(self.api_url).hostname or self.api_url

    @property
    def budget_name(self) -> str:
        """Who counts our requests: the host, or Wikimedia, for all of its wikis together."""
        return "wikimedia" if self.host.endswith(_WIKIMEDIA) else self.host

    @model_validator(mode="after")
    def _leases_outlast_requests(self) -> Self:
        if self.budget.lease_s <= self.timeout_s:
            raise ValueError(
                f"budget.lease_s {self.budget.lease_s:g} must exceed timeout_s {self.timeout_s:g}: "
                "else a request may outlive its place in the budget"
            )
        return self

    @model_validator(mode="after")
    def _contact_for_wikimedia(self) -> Self:
        host = urlsplit(self.api_url).hostname or ""
        if host.endswith(_WIKIMEDIA) and not self.contact:
            raise ValueError(
                f"{host} demands an operator's contact in the User-Agent: "
                "set `contact` to your mail address or page"
            )
        return self


class SearchMode(StrEnum):
    """Which queries are asked in which order: ours, or the open reproduction's."""

    BATCHED = "batched"
    REPRODUCTION = "reproduction"


class SearcherSettings(Settings):
    """Knowledge searching: MediaWiki, or a local snapshot, which is also MediaWiki's fallback."""

    mode: SearchMode = Field(
        SearchMode.BATCHED,
        description="`batched` folds all strategies into few requests; `reproduction` asks one after "
        "the other, as the open reproduction does.",
    )
    max_requests: int = Field(
        3, ge=1, le=10, description="Requests of one search in mode `batched`, at most."
    )
    entity_model: str | None = Field(
        None,
        description="Name or folder of a spaCy pipeline that finds names where no rule does; null "
        "takes the rules alone.",
    )

    snapshot: str | None = Field(None, description="Folder or URI of a snapshot index.")
    mediawiki: MediaWikiSettings | None = Field(None, description="Null searches the snapshot only.")
    replay: tuple[str, ...] = Field(
        (),
        description="For evaluation only, instead of the others: files of question sets whose rows have "
        "`id` and `external`, which answers the request with id SET.ID, SET being the file's name.",
    )

    @model_validator(mode="after")
    def _some_backend(self) -> Self:
        if self.snapshot is None and self.mediawiki is None and not self.replay:
            raise ValueError("searcher needs a `snapshot`, a `mediawiki`, or both")
        if self.replay and (self.snapshot or self.mediawiki):
            raise ValueError(
                "searcher takes `replay` alone: beside it no other source may answer an evaluation"
            )
        return self

    @property
    def sources(self) -> tuple[DocumentSource, ...]:
        """The configured sources in the order in which they are asked."""
        configured = {
            DocumentSource.WIKIPEDIA: self.mediawiki,
            DocumentSource.SNAPSHOT: self.snapshot,
            DocumentSource.REPLAY: self.replay or None,
        }
        return tuple(source for source, backend in configured.items() if backend is not None)


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


class TracingSettings(Settings):
    """Traces of requests, by OpenTelemetry."""

    otlp_endpoint: str | None = Field(
        None,
        description="Where spans go, such as http://collector:4318/v1/traces (OTLP over HTTP); null "
        "traces nothing.",
    )
    sampled_share: float = Field(
        1.0,
        ge=0.0,
        le=1.0,
        description="Share of requests traced, of those whose client has not decided it by traceparent.",
    )


class RecordSettings(Settings):
    """Decision records of answers, with the question and its evidence in people's own words."""

    max_answers: int = Field(0, ge=0, description="Records kept in the cluster; 0 records nothing.")
    max_bytes: int = Field(256_000_000, ge=1_000, description="Bytes of all records together.")


class ObservabilitySettings(Settings):
    """What an operator sees of the application."""

    metrics: bool = Field(True, description="Whether processes export metrics through Ray.")
    log_texts: bool = Field(
        False,
        description="Whether the log line of an answer holds question, answer and evidence, which are "
        "people's own words.",
    )
    tracing: TracingSettings = Field(
        default_factory=TracingSettings, description="Traces of requests, by OpenTelemetry."
    )
    records: RecordSettings = Field(
        default_factory=RecordSettings, description="Decision records of answers."
    )


class AppSettings(Settings):
    """Everything the application is told; placement stands beside it, in `deployments:`."""

    crag: CragSettings = Field(default_factory=CragSettings, description="The pipelines.")
    retriever: RetrieverSettings = Field(description="The static corpus.")
    evaluator: EvaluatorSettings = Field(description="The retrieval evaluator.")
    generator: GeneratorSettings = Field(description="The generator.")
    searcher: SearcherSettings = Field(description="Knowledge searching.")
    compact: CompactAppSettings | None = Field(
        None, description="Pipeline `compact`; null leaves it out."
    )
    explain: ExplainSettings | None = Field(
        None, description="Explanations of scores; null leaves them out."
    )
    api: ApiSettings = Field(default_factory=ApiSettings, description="The HTTP API.")
    admission: AdmissionSettings = Field(
        default_factory=AdmissionSettings, description="Which requests are let in."
    )
    observability: ObservabilitySettings = Field(
        default_factory=ObservabilitySettings, description="Metrics, traces, logs and records."
    )

    @model_validator(mode="after")
    def _prompts_fit_the_window(self) -> Self:
        budget = self.crag.generation.prompt_token_budget
        if budget >= self.generator.max_model_len:
            raise ValueError(
                f"crag.generation.prompt_token_budget {budget} leaves no room for an answer in "
                f"generator.max_model_len {self.generator.max_model_len}: lower it"
            )
        return self
