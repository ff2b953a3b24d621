"""The ladder of cheaper answers: the closed list of what an answer may give up, and when.

Every rung taken is recorded in the answer with its stage and its reason; nothing degrades elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile

from crag_core.context import RequestContext
from crag_core.errors import (
    CragError,
    Overloaded,
    SearchBudgetSpent,
    SearchCircuitOpen,
    SearchFailed,
    SearchThrottled,
    SearchTimedOut,
    StageTimedOut,
    StageUnavailable,
)
from crag_core.pace import Pace
from crag_core.types import Degradation, Document, Reason, ScoredStrip, Stage

_SEARCH_REASONS: dict[type[CragError], Reason] = {
    SearchBudgetSpent: Reason.SEARCH_BUDGET_SPENT,
    SearchThrottled: Reason.SEARCH_THROTTLED,
    SearchCircuitOpen: Reason.SEARCH_CIRCUIT_OPEN,
    SearchTimedOut: Reason.SEARCH_TIMED_OUT,
    SearchFailed: Reason.SEARCH_FAILED,
    StageTimedOut: Reason.SEARCH_TIMED_OUT,
    StageUnavailable: Reason.SEARCH_UNAVAILABLE,
    Overloaded: Reason.SEARCH_OVERLOADED,
}

SEARCH_OUTAGES = tuple(_SEARCH_REASONS)
"""Errors after which the answer goes on without that search."""

TOO_LATE = (StageTimedOut, Overloaded)
"""Errors of a stage that works, and cannot do this work in time."""

NOT_ENOUGH_EVIDENCE = "There is not enough evidence to answer this question."
"""The honest answer of the last rung, given instead of a guess."""


class Paces(defaultdict[Stage, Pace]):
    """What the stages of all questions of this process lately took."""

    def __init__(self) -> None:
        super().__init__(Pace)


@dataclass(slots=True)
class Ladder:
    """Decides what one question gives up so that the rest of it is in time.

    Every stage has to leave the generator the time that it usually takes; a stage that cannot is
    left out, or gets less to do. With the usual deadlines nothing of this happens.
    """

    ctx: RequestContext
    paces: Paces = field(default_factory=Paces)
    _s_per_character: float = 0.0

    @property
    def before_generating(self) -> RequestContext:
        """The context of every stage before the generator, whose time is kept."""
        return self.ctx.keeping(self.paces[Stage.GENERATE].usual_s())

    def evaluated(self, characters: int, seconds: float) -> None:
        """The evaluator took so long for the documents, waiting included: strips will be as slow."""
        self._s_per_character = seconds / characters if characters else 0.0

    def can_search(self) -> bool:
        """Whether a search can end in time; if not, the corpus has to do."""
        return self.before_generating.remaining_s() > self.paces[Stage.SEARCH].least_s()

    def strips_in_time(self, lengths: Sequence[int]) -> int:
        """How many strips, of so many characters each, can be scored in time, the first ones first."""
        left_s = self.before_generating.remaining_s()
        needed_s = (self._s_per_character * characters for characters in accumulate(lengths))
        return sum(1 for _ in takewhile(lambda seconds: seconds < left_s, needed_s))

    def go_on_after(self, error: CragError) -> None:
        """Raise the error of a stage that was too late, unless there is time to answer without it."""
        if self.ctx.remaining_s() <= self.paces[Stage.GENERATE].least_s():
            raise error


def search_reason(outage: CragError) -> Reason:
    """The reason that an outage of a search goes by; only for `SEARCH_OUTAGES`."""
    return next(_SEARCH_REASONS[cls] for cls in type(outage).__mro__ if cls in _SEARCH_REASONS)


def without_search(error: CragError) -> Degradation:
    """The rung taken when a search is down: the next one is asked, else the corpus has to do."""
    return Degradation(Stage.SEARCH, search_reason(error))


def search_cut_short(reason: Reason | None) -> tuple[Degradation, ...]:
    """The rung taken when a search fails after it has found something: that has to do."""
    return () if reason is None else (Degradation(Stage.SEARCH, reason),)


def strips_left_out(stage: Stage) -> Degradation:
    """The rung taken when documents hold more strips than may be scored for one question."""
    return Degradation(stage, Reason.STRIPS_LEFT_OUT)


def fewer_strips(stage: Stage) -> Degradation:
    """The rung taken when not all strips can be scored in time: those of the best documents are."""
    return Degradation(stage, Reason.FEWER_STRIPS)


def search_left_out() -> Degradation:
    """The rung taken when a search could not end in time: none is begun."""
    return Degradation(Stage.SEARCH, Reason.SEARCH_LEFT_OUT)


def older_copies(documents: Iterable[Document]) -> tuple[Degradation, ...]:
    """The rung taken when the web is down and older copies of its pages stand in for them."""
    is_any = any(document.is_stale for document in documents)
    return (Degradation(Stage.SEARCH, Reason.SEARCH_STALE),) if is_any else ()


def top_document_only(stage: Stage) -> Degradation:
    """The rung taken when nothing more can be scored in time: the best document is read as it is."""
    return Degradation(stage, Reason.TOP_DOCUMENT_ONLY)


def is_weak(strips: Sequence[ScoredStrip], minimum: float) -> bool:
    """Whether evidence was scored, and none of it reaches the strip threshold."""
    scores = [scored.score for scored in strips]
    return bool(scores) and all(score is not None and score < minimum for score in scores)


def cut_prompt(*, strips_cut: int, turns_cut: int) -> tuple[Degradation, ...]:
    """The rungs taken when evidence or earlier turns had to leave the prompt to fit its budget."""
    rungs = ((strips_cut, Reason.EVIDENCE_CUT), (turns_cut, Reason.HISTORY_CUT))
    return tuple(Degradation(Stage.GENERATE, reason) for count, reason in rungs if count)


def less_after_gibberish() -> Degradation:
    """The rung taken when the first words of a completion were none: half the prompt, once more."""
    return Degradation(Stage.GENERATE, Reason.GIBBERISH)


def abstention() -> Degradation:
    """The last rung: no evidence, so no answer is made up."""
    return Degradation(Stage.GENERATE, Reason.NOT_ENOUGH_EVIDENCE)


def malformed_plan() -> Degradation:
    """The rung taken when no plan can be read: the question is answered as a single hop."""
    return Degradation(Stage.DECOMPOSE, Reason.PLAN_MALFORMED)


def plan_cut() -> Degradation:
    """The rung taken when a plan has more sub-questions, or deeper ones, than may be resolved."""
    return Degradation(Stage.DECOMPOSE, Reason.PLAN_CUT)


def passages_instead() -> Degradation:
    """The rung taken when no atomic pair is close enough to a hop: passages are read instead."""
    return Degradation(Stage.RETRIEVE_PAIRS, Reason.PASSAGES_INSTEAD)


def unresolved_hop() -> Degradation:
    """The rung taken when a hop has no answer: what depends on it is asked by description."""
    return Degradation(Stage.EXTRACT, Reason.HOP_UNRESOLVED)
