"""The evaluation sets: PopQA, ARC-Challenge, PubHealth, HotpotQA, 2Wiki and MuSiQue, as published.

Each reads the set's own public file, the file that CRAG's or Self-RAG's releases made of it, and rows
with `internal` and `external` knowledge beside the question.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.quality.question_types import question_type
from benchmarks.quality.questions import EvalQuestion, Parse, QuestionSet, read_question_set
from crag_core.types import Choice, Passage, Task

Row = Mapping[str, Any]

_CLAIM_LABELS = {
    "true": "true", "supports": "true", "supported": "true",
    "false": "false", "refutes": "false", "refuted": "false",
}  # fmt: skip


def read_set(data: Path, name: str) -> QuestionSet:
    """A set by its name; any other name is a file of rows with `question` and `answers`.

    Raises FileNotFoundError and ValueError, as `read_question_set` does.
    """
    files, parse = _SETS.get(name, ((name,), _plain))
    return read_question_set(data, name, files, parse)


def _plain(row: Row, number: int) -> EvalQuestion:
    return EvalQuestion(
        id=_id(row, number, "id"),
        text=_text(row["question"]),
        task=Task.QUESTION,
        answers=_answers(row),
        kind=question_type(row["question"]),
        documents=_passages(row, "internal", "documents", "ctxs"),
        pages=_passages(row, "external"),
    )


def _arc(row: Row, number: int) -> EvalQuestion:
    stem = row["question"]
    question, listed = (
        (stem["stem"], stem["choices"]) if isinstance(stem, dict) else (stem, row["choices"])
    )
    if isinstance(listed, dict):  # the form of the Hugging Face hub: two columns
        pairs = zip(listed["label"], listed["text"], strict=True)
        listed = [{"label": label, "text": text} for label, text in pairs]
    choices = tuple(Choice(str(each["label"]), str(each["text"])) for each in listed)
    label = row.get("answerKey") or None
    right = [choice.text for choice in choices if choice.label == label]
    if label is not None and not right:
        raise ValueError(f"its answerKey {label} is none of its choices")
    return EvalQuestion(
        id=_id(row, number, "id"),
        text=_text(question),
        task=Task.CHOICE,
        answers=tuple(right),
        kind="choice",
        choices=choices,
        gold_label=label,
        documents=_passages(row, "internal", "ctxs"),
        pages=_passages(row, "external"),
    )


def _claim(row: Row, number: int) -> EvalQuestion:
    gold = row.get("label") if "label" in row else next(iter(row.get("answers") or ()), None)
    known = _CLAIM_LABELS.get(str(gold).strip().lower())  # "mixture" and "unproven" are neither
    return EvalQuestion(
        id=_id(row, number, "id", "claim_id"),
        text=_text(row.get("claim") or row["question"]),
        task=Task.CLAIM,
        answers=(known,) if known else (),
        kind="claim",
        documents=_passages(row, "internal", "ctxs"),
        pages=_passages(row, "external"),
    )


def _multi_hop(row: Row, number: int) -> EvalQuestion:
    return EvalQuestion(
        id=_id(row, number, "id", "_id"),
        text=_text(row["question"]),
        task=Task.QUESTION,
        answers=_answers(row),
        kind=str(row.get("type") or str(row.get("id", "")).partition("__")[0] or "other"),
        documents=_paragraphs(row),
    )


_SETS: Mapping[str, tuple[tuple[str, ...], Parse]] = {
    "popqa": (("popqa", "popQA", "popqa_longtail_w_gs", "popqa_longtail"), _plain),
    "arc_challenge": (
        ("arc_challenge", "ARC-Challenge-Test", "arc_challenge_processed", "ARC-Challenge-Dev"),
        _arc,
    ),
    "pubhealth": (("pubhealth", "pubqa", "health_claims_processed", "test"), _claim),
    "hotpotqa": (
        ("hotpotqa", "hotpot_dev_distractor_v1", "hotpot_dev_fullwiki_v1", "hotpot"),
        _multi_hop,
    ),
    "2wiki": (("2wiki", "2wikimultihopqa", "dev"), _multi_hop),
    "musique": (("musique", "musique_ans_v1.0_dev"), _multi_hop),
}
"""File names by set, as the sets' releases name them, and how a row is read."""


def _id(row: Row, number: int, *names: str) -> str:
    """The row's own id; PopQA's and some others' files have none, and number their rows."""
    own = (row[name] for name in names if row.get(name) not in (None, ""))
    return str(next(own, f"row-{number}"))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("it has no question")
    return value.strip()


def _answers(row: Row) -> tuple[str, ...]:
    """All gold aliases under the names that the sets have for them."""
    found: list[str] = []
    for name in ("answers", "possible_answers", "answer", "answer_aliases"):
        value = row.get(name)
        if isinstance(value, str) and value.startswith("[") and name == "possible_answers":
            value = json.loads(value)  # a column of PopQA's table
        found += [value] if isinstance(value, str) else [str(each) for each in value or ()]
    return tuple(dict.fromkeys(answer for answer in found if answer.strip()))


def _passages(row: Row, *names: str) -> tuple[Passage, ...] | None:
    given = next((row[name] for name in names if row.get(name) is not None), None)
    return None if given is None else tuple(_passage(each) for each in given)


def _paragraphs(row: Row) -> tuple[Passage, ...] | None:
    """A multi-hop question's own paragraphs; none means that it is asked of a corpus."""
    if row.get("context"):  # HotpotQA and 2Wiki: titles with lists of sentences
        return tuple(Passage("".join(sentences), title) for title, sentences in row["context"])
    return tuple(_passage(each) for each in row.get("paragraphs") or ()) or None


def _passage(entry: object) -> Passage:
    if isinstance(entry, str):
        return Passage(entry)
    if not isinstance(entry, dict):
        raise ValueError(f"{entry!r} is no passage")
    text = entry.get("text", entry.get("paragraph_text", ""))
    return Passage(str(text), str(entry.get("title") or ""))
