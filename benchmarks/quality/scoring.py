"""What a row is worth: its metrics against gold, what was found on the way, and what it cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quality.ledger import Row
from benchmarks.quality.methods import Method
from benchmarks.quality.questions import EvalQuestion
from crag_core.metrics import (
    choice_occurs,
    chosen_label,
    claimed_truth,
    contains_answer,
    exact_match,
    f1_score,
)
from crag_core.types import Passage, Task

HEADLINE: Mapping[Task, str] = {
    Task.QUESTION: "match",
    Task.CHOICE: "choice",
    Task.CLAIM: "claim",
}
"""The metric that tables by action and type show, and that the gate compares."""

METRICS: Mapping[Task, tuple[str, ...]] = {
    Task.QUESTION: ("match", "match, case-sensitive", "EM", "F1"),
    Task.CHOICE: ("choice", "choice, letter alone"),
    Task.CLAIM: ("claim", "claim, case-sensitive"),
}

EXTERNAL_SOURCES = ("replay", "snapshot", "wikipedia")


@dataclass(frozen=True, slots=True)
class Scored:
    """One judged row. A failure has every metric at 0.

    `metrics` is empty where the question has no gold. `hits` says, where it applies, whether a gold
    alias stands in the given documents, in the evidence, in the external evidence, and whether a search
    found any page.
    """

    set: str
    id: str
    method: Method
    kind: str
    metrics: Mapping[str, float]
    seconds: float
    error: str | None = None
    action: str | None = None
    degraded: bool = False
    best_score: float | None = None
    evaluator_id: str | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    hits: Mapping[str, bool] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    tokens: int = 0
    llm_calls: int = 0
    search_calls: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)


def score_row(row: Row, question: EvalQuestion) -> Scored:
    """Judge one row against its question's gold."""
    if row.reply is None:
        nothing = dict.fromkeys(METRICS[question.task], 0.0) if question.has_gold else {}
        return Scored(row.set, row.id, row.method, question.kind, nothing, row.seconds, row.error or "")
    reply = row.reply
    trace: dict[str, Any] = reply.get("trace") or {}
    scores = [each["score"] for each in trace.get("documents", ()) if each["score"] is not None]
    usage = reply["usage"]
    return Scored(
        set=row.set,
        id=row.id,
        method=row.method,
        kind=question.kind,
        metrics=metrics_of(reply["answer"], question),
        seconds=row.seconds,
        action=reply["action"],
        degraded=bool(reply["degraded"]),
        best_score=max(scores, default=None),
        evaluator_id=trace.get("evaluator_id"),
        thresholds=trace.get("thresholds") or {},
        hits=_hits(reply, trace, question),
        sources=searched_sources(reply),
        tokens=usage["prompt_tokens"] + usage["completion_tokens"],
        llm_calls=usage.get("llm_calls", 0),
        search_calls=usage.get("search_calls", 0),
        stages=_stage_seconds(trace),
    )


def metrics_of(answer: str, question: EvalQuestion) -> dict[str, float]:
    """Every metric of the question's task, from 0 to 1; none without gold."""
    gold = question.answers
    if not gold:
        return {}
    values: tuple[float, ...]
    match question.task:
        case Task.QUESTION:
            values = (
                contains_answer(answer, gold, case_sensitive=False),
                contains_answer(answer, gold, case_sensitive=True),
                max(exact_match(answer, alias) for alias in gold),
                max(f1_score(answer, alias) for alias in gold),
            )
        case Task.CHOICE:
            label = question.gold_label or ""
            values = (
                choice_occurs(answer, question.choices, label),
                chosen_label(answer, question.choices) == label,
            )
        case Task.CLAIM:
            values = (
                claimed_truth(answer, case_sensitive=False) in gold,
                claimed_truth(answer, case_sensitive=True) in gold,
            )
    return {name: float(value) for name, value in zip(METRICS[question.task], values, strict=True)}


def searched_sources(reply: Mapping[str, Any]) -> frozenset[str]:
    """Where the pages of a search came from, as their ids say."""
    searched = (reply.get("trace") or {}).get("searched", ())
    found = {page["document_id"].partition(":")[0] for page in searched}
    return frozenset(found & set(EXTERNAL_SOURCES))


def passages_have_answer(question: EvalQuestion) -> bool | None:
    """Whether a gold alias stands in the set's own documents; None where that cannot be told."""
    if question.task is not Task.QUESTION or not question.answers or question.documents is None:
        return None
    return _holds(question, question.documents)


def _hits(reply: Mapping[str, Any], trace: Mapping[str, Any], question: EvalQuestion) -> dict[str, bool]:
    hits: dict[str, bool] = {}
    if trace.get("search_queries") or trace.get("searched"):
        hits["search found a page"] = bool(trace["searched"])
    if question.task is not Task.QUESTION or not question.answers:
        return hits
    given = passages_have_answer(question)
    if given is not None and reply["action"] is not None:
        hits["answer in the documents"] = given
    cited = [(each["document_id"], Passage(each["text"], each["title"])) for each in reply["citations"]]
    if cited:
        hits["answer in the evidence"] = _holds(question, [passage for _, passage in cited])
    if "search found a page" in hits:
        external = [p for name, p in cited if name.partition(":")[0] in EXTERNAL_SOURCES]
        hits["answer in the pages' strips"] = _holds(question, external)
    return hits


def _holds(question: EvalQuestion, passages: Iterable[Passage]) -> bool:
    text = "\n".join(f"{passage.title}\n{passage.text}" for passage in passages)
    return contains_answer(text, question.answers, case_sensitive=False)


def _stage_seconds(trace: Mapping[str, Any]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for stage in trace.get("stages", ()):
        seconds[stage["stage"]] = seconds.get(stage["stage"], 0.0) + stage["seconds"]
    return seconds
