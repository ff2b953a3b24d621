"""The values that travel between the stages: frozen, small, without behaviour of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Score = float
"""A raw logit of the retrieval evaluator; never squashed into a probability."""


class Action(StrEnum):
    """What the action trigger decides for one question (CRAG, section 4.3)."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    AMBIGUOUS = "ambiguous"


class EvidenceQuality(StrEnum):
    """How good the evidence behind an answer is, by the evaluator's own thresholds."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


class PipelineName(StrEnum):
    """The pipelines, by the one name each has everywhere: field, model name and flag."""

    CRAG = "crag"
    RAG = "rag"
    NO_RETRIEVAL = "no_retrieval"
    COMPACT = "compact"


class Task(StrEnum):
    """What kind of answer the question wants."""

    QUESTION = "question"
    CHOICE = "choice"
    CLAIM = "claim"


class Stage(StrEnum):
    """The stages of an answer, as traces, errors and metrics name them."""

    RETRIEVE = "retrieve"
    EVALUATE = "evaluate"
    REFINE_INTERNAL = "refine_internal"
    SEARCH = "search"
    REFINE_EXTERNAL = "refine_external"
    DECOMPOSE = "decompose"
    REWRITE = "rewrite"
    RETRIEVE_PAIRS = "retrieve_pairs"
    EXTRACT = "extract"
    GENERATE = "generate"
    EXPLAIN = "explain"


class Reason(StrEnum):
    """Why an answer gave something up: the closed list of reasons."""

    SEARCH_FAILED = "search_failed"
    SEARCH_TIMED_OUT = "search_timed_out"
    SEARCH_UNAVAILABLE = "search_unavailable"
    SEARCH_OVERLOADED = "search_overloaded"
    SEARCH_BUDGET_SPENT = "search_budget_spent"
    SEARCH_THROTTLED = "search_throttled"
    SEARCH_CIRCUIT_OPEN = "search_circuit_open"
    STRIPS_LEFT_OUT = "strips_left_out"
    FEWER_STRIPS = "fewer_strips"
    SEARCH_LEFT_OUT = "search_left_out"
    SEARCH_STALE = "search_stale"
    TOP_DOCUMENT_ONLY = "top_document_only"
    EVIDENCE_CUT = "evidence_cut_to_budget"
    HISTORY_CUT = "history_cut_to_budget"
    GIBBERISH = "gibberish_on_more_evidence"
    NOT_ENOUGH_EVIDENCE = "not_enough_evidence"
    PLAN_MALFORMED = "plan_malformed"
    PLAN_CUT = "plan_cut_to_limits"
    HOP_UNRESOLVED = "hop_unresolved"
    PASSAGES_INSTEAD = "passages_instead_of_pairs"


class Speculative(StrEnum):
    """What may be begun before the action is known."""

    STRIPS = "strips"
    SEARCH = "search"


class Speculated(StrEnum):
    """What became of work begun ahead."""

    USED = "used"
    WASTED = "wasted"


class Strategy(StrEnum):
    """The ways of knowledge searching to a page, as the open reproduction names them."""

    DIRECT = "direct"
    DISAMBIGUATION = "disambiguation"
    TYPED = "typed"
    SEARCH = "search"
    HINT = "hint"


class DocumentSource(StrEnum):
    """Where a document came from."""

    CORPUS = "corpus"
    CALLER = "caller"
    WIKIPEDIA = "wikipedia"
    SNAPSHOT = "snapshot"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Choice:
    """One option of a multiple-choice question."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of the conversation; kept in the prompt, never searched."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it was asked, with what the prompt needs beside its text."""

    text: str
    task: Task = Task.QUESTION
    choices: tuple[Choice, ...] = ()
    system: tuple[str, ...] = ()
    history: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A retrieved, searched or given document; `revision` is the page revision it was read at.

    `is_stale` says that its source had failed, and that an older copy stands in for it.
    """

    id: str
    text: str
    title: str = ""
    source: DocumentSource = DocumentSource.CORPUS
    url: str | None = None
    revision: str | None = None
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One query: a page's title, or with strategy `search` words of the text; and why it is asked."""

    text: str
    strategy: Strategy
    entity: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page that a search found, and the query that led to it.

    `strategy` is `disambiguation` for an entry of a page that lists what `query` may mean.
    """

    document: Document
    query: SearchQuery
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class Passage:
    """What the evaluator scores; whether the title is part of the input is its manifest's business."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """A knowledge strip: `text` is the document's text from code point `start` up to `end`."""

    text: str
    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ScoredStrip:
    """A strip with its relevance score; `None` where no evaluator has scored it (pipeline `rag`)."""

    strip: Strip
    score: Score | None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the generator may answer from: refined strips of the corpus and of the web, recomposed."""

    internal: tuple[ScoredStrip, ...] = ()
    external: tuple[ScoredStrip, ...] = ()

    @property
    def strips(self) -> tuple[ScoredStrip, ...]:
        """Internal before external, in the order in which they are numbered and cited."""
        return self.internal + self.external


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A chat prompt; the generator applies the model's own chat template to it."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a completion is sampled; temperature 0 is greedy, a `json_schema` guides the decoding."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    json_schema: str | None = None


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one completion."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One piece of a completion; the last piece carries `finish_reason` (stop, length) and the usage."""

    text: str
    finish_reason: str | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """Evidence the generator saw: a strip, the document it stands in, and where in its text."""

    index: int
    document_id: str
    title: str
    url: str | None
    revision: str | None
    text: str
    start: int
    end: int
    score: Score | None


@dataclass(frozen=True, slots=True)
class Degradation:
    """One rung of the ladder that was taken: which stage gave something up, and why."""

    stage: Stage
    reason: Reason


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost; `llm_attempts` counts failed calls too."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    llm_calls: int = 0
    llm_attempts: int = 0
    search_calls: int = 0


@dataclass(frozen=True, slots=True)
class StageRecord:
    """How long one stage took, in seconds from its start, and the code of the error that ended it."""

    stage: Stage
    started_s: float
    seconds: float
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A document as the evaluator saw it; `score` is `None` for an empty one, which decides nothing."""

    document_id: str
    title: str
    score: Score | None
    truncated: bool


@dataclass(frozen=True, slots=True)
class SearchedDocument:
    """A page that the search found: how, at which revision, and whether it was used as evidence.

    `score` is the evaluator's where pages of one name had to be told apart, else `None`.
    """

    document_id: str
    title: str
    url: str | None
    revision: str | None
    strategy: Strategy
    query: str
    score: Score | None
    used: bool


@dataclass(frozen=True, slots=True)
class Hop:
    """One sub-question of pipeline `compact` as it was resolved.

    `references` are positions of earlier hops; `asked` is the sub-question with their answers in
    place. `answer` is `None` where nothing was found, and where the sub-question was left to the
    synthesis, which then has no `level`.
    """

    question: str
    references: tuple[int, ...]
    level: int | None
    asked: str
    answer: str | None
    found: tuple[ScoredDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """How an answer came about: what was scored against which thresholds, and how long it took.

    `evaluator_queue_s` is how long its documents waited for the evaluator; `speculated` says what became
    of work that was begun before the action was known.
    """

    stages: tuple[StageRecord, ...] = ()
    documents: tuple[ScoredDocument, ...] = ()
    searched: tuple[SearchedDocument, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    strip_min_score: float | None = None
    evaluator_id: str | None = None
    strips_scored: int = 0
    strips_kept: int = 0
    search_queries: tuple[SearchQuery, ...] = ()
    search_requests: int = 0
    fallback: str | None = None
    evaluator_queue_s: float = 0.0
    speculated: Mapping[Speculative, Speculated] = field(default_factory=dict)
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer; the same object whether it was streamed or not.

    `record` is its decision record as JSON, where the application keeps them.
    """

    text: str
    pipeline: PipelineName
    action: Action | None
    evidence_quality: EvidenceQuality
    degraded: tuple[Degradation, ...]
    citations: tuple[Citation, ...]
    usage: Usage
    trace: Trace
    finish_reason: str
    record: bytes | None = None
