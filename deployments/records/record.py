"""A decision record: one question, everything its stages answered, and what came of it."""

from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from crag_core.compact.settings import CompactSettings
from crag_core.compact.types import ExtractedAnswer, Reading, Rewriting, ScoredPair
from crag_core.errors import SettingsError
from crag_core.protocols import Ask, Evaluation, SearchResult
from crag_core.queries.plan import Sought
from crag_core.settings import CragSettings
from crag_core.types import Answer, Completion, Document, Passage

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One call of the retriever."""

    query: str
    limit: int
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One call of the evaluator."""

    question: str
    passages: tuple[Passage, ...]
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Searched:
    """One call of a searcher; `source` is its place in the order in which they are asked."""

    source: int
    sought: Sought
    limit: int
    result: SearchResult


@dataclass(frozen=True, slots=True)
class PageRead:
    """One page read in full."""

    source: int
    page: Document
    paragraphs: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class PairsFound:
    """One call of the base of atomic pairs: what was found for each query of a level."""

    queries: tuple[str, ...]
    limit: int
    pairs: tuple[tuple[ScoredPair, ...], ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One call of the sub-question rewriter."""

    rewritings: tuple[Rewriting, ...]
    texts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Extracted:
    """One call of the answer extractor."""

    readings: tuple[Reading, ...]
    answers: tuple[ExtractedAnswer | None, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that ended with an error of the core; `call` is its key, as `tape.py` makes it."""

    call: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Calls:
    """What the stages were asked and answered; of the counted prompts, the tokens in order."""

    retrieved: tuple[Retrieved, ...] = ()
    evaluated: tuple[Evaluated, ...] = ()
    searched: tuple[Searched, ...] = ()
    read: tuple[PageRead, ...] = ()
    counted: tuple[int, ...] = ()
    completed: tuple[tuple[Completion, ...], ...] = ()
    failed: tuple[Failed, ...] = ()
    pairs: tuple[PairsFound, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()
    extracted: tuple[Extracted, ...] = ()


@dataclass(frozen=True, slots=True)
class Models:
    """What answered, by the names and revisions that the settings give; the evaluator names itself."""

    generator: str
    generator_revision: str | None
    evaluator_id: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """Enough to decide again: evidence and scores as they came, and the settings in force.

    `compact` are the settings that pipeline `compact` has beside those of every pipeline; its
    sub-questions stand in the answer's trace, as `hops`.
    """

    ask: Ask
    settings: CragSettings
    models: Models
    calls: Calls
    answer: Answer
    compact: CompactSettings | None = None
    format: int = field(default=FORMAT)

    def to_json(self) -> bytes:
        """The record, as it is kept and sent."""
        return _ADAPTER.dump_json(self)

    @staticmethod
    def from_json(content: bytes) -> "DecisionRecord":
        """Raises SettingsError when it is none, or one of another release."""
        try:
            written = _VERSIONED.validate_json(content).format
            if written != FORMAT:
                raise SettingsError(
                    f"that decision record has format {written}, and this release reads {FORMAT}: "
                    "use the release that made it"
                )
            return _ADAPTER.validate_json(content)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "it"
            raise SettingsError(f"that is no decision record: {place}: {first['msg']}") from None


@dataclass(frozen=True, slots=True)
class _Versioned:
    """Of a record, what says how the rest is to be read."""

    format: int


_ADAPTER = TypeAdapter(DecisionRecord)
_VERSIONED = TypeAdapter(_Versioned)
