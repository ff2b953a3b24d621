"""The methods that are compared, and the request that each makes of a question."""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from benchmarks.quality.questions import EvalQuestion
from crag_core.types import Passage, PipelineName, Task

_MAX_DOCUMENTS, _MAX_CHARACTERS, _MAX_TITLE_CHARACTERS = 100, 100_000, 1_000
_NEVER = 1e6
"""A score that no evaluator gives."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Method(StrEnum):
    """What is compared: the pipelines with the papers' variants, and CompactRAG's baselines.

    `crag_correct` and its like force one action on every question: what `crag calibrate` reads.
    """

    NO_RETRIEVAL = "no_retrieval"
    RAG_TOP1 = "rag_top1"
    RAG = "rag"
    CRAG_NO_WEB = "crag_no_web"
    CRAG = "crag"
    CRAG_CORRECT = "crag_correct"
    CRAG_AMBIGUOUS = "crag_ambiguous"
    CRAG_INCORRECT = "crag_incorrect"
    COMPACT = "compact"
    SELF_ASK = "self_ask"
    IRCOT = "ircot"
    ITER_RETGEN = "iter_retgen"

    @property
    def is_served(self) -> bool:
        """Whether the HTTP API has it; the others run in process only."""
        return self not in (Method.SELF_ASK, Method.IRCOT, Method.ITER_RETGEN)


DEFAULT_METHODS = (
    Method.NO_RETRIEVAL,
    Method.RAG_TOP1,
    Method.RAG,
    Method.CRAG_NO_WEB,
    Method.CRAG,
)

_REQUESTS: Mapping[Method, tuple[PipelineName, Mapping[str, Any]]] = {
    Method.NO_RETRIEVAL: (PipelineName.NO_RETRIEVAL, {}),
    Method.RAG_TOP1: (PipelineName.RAG, {"rag_documents": 1}),
    Method.RAG: (PipelineName.RAG, {"rag_documents": 10}),
    Method.CRAG_NO_WEB: (PipelineName.CRAG, {"search": False}),
    Method.CRAG: (PipelineName.CRAG, {"search": True}),
    Method.CRAG_CORRECT: (PipelineName.CRAG, {"thresholds": {"upper": -_NEVER, "lower": -_NEVER}}),
    Method.CRAG_AMBIGUOUS: (PipelineName.CRAG, {"thresholds": {"upper": _NEVER, "lower": -_NEVER}}),
    Method.CRAG_INCORRECT: (PipelineName.CRAG, {"thresholds": {"upper": _NEVER, "lower": _NEVER}}),
    Method.COMPACT: (PipelineName.COMPACT, {}),
}
"""Pipeline and options by method; the baselines of `compact` are no pipelines."""


def request_of(
    method: Method, question: EvalQuestion, options: Mapping[str, Any], *, given: bool
) -> dict[str, Any]:
    """The body of `POST /v1/answer`; with `given`, the set's own documents replace retrieval.

    Answers are forced, as in the papers: an abstention would be a wrong answer.
    """
    pipeline, fixed = _REQUESTS[method]
    body: dict[str, Any] = {
        "question": question.text,
        "task": question.task,
        "pipeline": pipeline,
        "options": {"force_answer": True, **fixed, **options},
    }
    if question.task is Task.CHOICE:
        body["choices"] = [{"label": each.label, "text": each.text} for each in question.choices]
    if given and question.documents is not None and pipeline is not PipelineName.NO_RETRIEVAL:
        body["documents"] = [_document(each) for each in question.documents[:_MAX_DOCUMENTS]]
    return body


def request_id(set_name: str, question_id: str) -> str:
    """The id of a question's requests, by which a replayed search knows the question.

    Ids that no header may carry are replaced by their hash.

    >>> request_id("popqa", "4382392")
    'popqa.4382392'
    """
    name = f"{set_name}.{question_id}"
    if _REQUEST_ID.fullmatch(name):
        return name
    return f"{set_name[:20]}.{hashlib.sha256(name.encode()).hexdigest()[:40]}"


def _document(passage: Passage) -> dict[str, str]:
    return {"text": passage.text[:_MAX_CHARACTERS], "title": passage.title[:_MAX_TITLE_CHARACTERS]}
