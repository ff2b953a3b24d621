"""The ladder of cheaper answers: the closed list of what an answer may give up, and when.

Every rung taken is recorded in the answer with its stage and its reason; nothing degrades elsewhere.
"""

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
from crag_core.types import Degradation, Reason, Stage

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

NOT_ENOUGH_EVIDENCE = "There is not enough evidence to answer this question."
"""The honest answer of the last rung, given instead of a guess."""


def without_search(error: CragError) -> Degradation:
    """The rung taken when a search is down: the next one is asked, else the corpus has to do."""
    reason = next(_SEARCH_REASONS[cls] for cls in type(error).__mro__ if cls in _SEARCH_REASONS)
    return Degradation(Stage.SEARCH, reason)


def strips_left_out(stage: Stage) -> Degradation:
    """The rung taken when documents hold more strips than may be scored for one question."""
    return Degradation(stage, Reason.STRIPS_LEFT_OUT)


def cut_prompt(*, strips_cut: int, turns_cut: int) -> tuple[Degradation, ...]:
    """The rungs taken when evidence or earlier turns had to leave the prompt to fit its budget."""
    rungs = ((strips_cut, Reason.EVIDENCE_CUT), (turns_cut, Reason.HISTORY_CUT))
    return tuple(Degradation(Stage.GENERATE, reason) for count, reason in rungs if count)


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
