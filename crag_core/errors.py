"""Every error a client can meet, one class each.

CragError
├── InvalidQuestion        the question or a field beside it is not usable
├── InvalidTimeout         the time limit is not a positive, finite number of seconds
├── PromptTooLong          the question alone does not fit the generator's window
├── PipelineNotConfigured  no such pipeline in this application
├── ExplanationsNotConfigured  this application explains no scores
├── AnswerNotFound         no answer of that id is recorded
├── QualityBelowMinimum    the evidence is weaker than the caller accepts
├── Overloaded             too much work is waiting; try again later
├── NotReady               the application is still starting
├── StageUnavailable       a stage has no live replica, or its engine is dead
├── StageTimedOut          a stage did not finish before the deadline
└── StageFailed            a stage failed
    ├── RetrievalFailed
    ├── EvaluationFailed
    ├── SearchFailed
    │   ├── SearchBudgetSpent  our own limit for the wiki leaves no request before the deadline
    │   ├── SearchThrottled    the wiki asks for a longer pause than the deadline allows
    │   ├── SearchCircuitOpen  the wiki has failed so often that it is left alone
    │   └── SearchTimedOut     the wiki did not answer in time
    └── GenerationFailed
        └── MalformedCompletion
SettingsError              start-up only: settings, models and indexes that do not fit together

Each takes one message, because Ray rebuilds an error on the caller's side from that one argument.
"""

from typing import ClassVar


class CragError(Exception):
    """The root: `message` is for the client, `code` names the kind of error for ever."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidQuestion(CragError):
    """The question, or a field that belongs to it, cannot be answered as it stands."""

    code = "invalid_question"


class InvalidTimeout(CragError):
    """A time limit that is not a positive, finite number of seconds."""

    code = "invalid_timeout"


class PromptTooLong(CragError):
    """The question with its instruction does not fit the generator's window, even without evidence."""

    code = "prompt_too_long"


class PipelineNotConfigured(CragError):
    """The pipeline asked for is not part of this application."""

    code = "pipeline_not_configured"


class ExplanationsNotConfigured(CragError):
    """This application explains no scores."""

    code = "explanations_not_configured"


class AnswerNotFound(CragError):
    """No answer of that id is recorded, or none with that document."""

    code = "answer_not_found"


class QualityBelowMinimum(CragError):
    """The evidence found is weaker than the caller's `min_quality`."""

    code = "quality_below_minimum"


class Overloaded(CragError):
    """More work is waiting than can be done in time; the caller may try again later.

    Whoever knows when there will be room sets `retry_after_s` on the error.
    """

    code = "overloaded"
    retry_after_s: float | None = None


class NotReady(CragError):
    """The application, or one of its stages, has not answered since it started."""

    code = "not_ready"


class StageUnavailable(CragError):
    """A stage has no live replica, or its engine is dead."""

    code = "stage_unavailable"


class StageTimedOut(CragError):
    """A stage did not finish before the request's deadline."""

    code = "stage_timed_out"


class StageFailed(CragError):
    """A stage failed; the parent of one class per stage."""

    code = "stage_failed"


class RetrievalFailed(StageFailed):
    """The index could not be read or searched."""

    code = "retrieval_failed"


class EvaluationFailed(StageFailed):
    """The evaluator could not score the passages; never turned into a score."""

    code = "evaluation_failed"


class SearchFailed(StageFailed):
    """The web search failed; an empty result is no failure."""

    code = "search_failed"


class SearchBudgetSpent(SearchFailed):
    """The requests that we allow ourselves for a wiki are spent until after the deadline."""

    code = "search_budget_spent"


class SearchThrottled(SearchFailed):
    """The wiki asks us to wait longer than the deadline allows."""

    code = "search_throttled"


class SearchCircuitOpen(SearchFailed):
    """The wiki has failed so often that it is left alone for a while."""

    code = "search_circuit_open"


class SearchTimedOut(SearchFailed):
    """The wiki did not answer in time."""

    code = "search_timed_out"


class GenerationFailed(StageFailed):
    """The generator failed before or during a completion."""

    code = "generation_failed"


class MalformedCompletion(GenerationFailed):
    """A completion that had to have a form did not have it, also after one retry."""

    code = "malformed_completion"


class SettingsError(Exception):
    """Settings, models or indexes that do not fit together; raised at start-up, never over HTTP."""
