"""Question sets are read in the forms they are published in, and bad files are refused by name."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality.question_sets import read_set
from benchmarks.quality.questions import EvalQuestion
from crag_core.types import Choice, Passage, Task

OPTIONS = [{"label": "A", "text": "ice"}, {"label": "B", "text": "snow"}]
TWO_CHOICES = (Choice("A", "ice"), Choice("B", "snow"))
HOTPOT = {
    "_id": "5a8", "question": "Who?", "answer": "Ann", "type": "bridge",
    "context": [["Page", ["One.", " Two."]]], "supporting_facts": [["Page", 0]],
}  # fmt: skip
HOTPOT_READ = EvalQuestion(
    "5a8", "Who?", Task.QUESTION, ("Ann",), "bridge", documents=(Passage("One. Two.", "Page"),)
)
MUSIQUE = {
    "id": "2hop__1_2", "question": "Who?", "answer": "Ann", "answer_aliases": ["Anne"],
    "paragraphs": [{"idx": 0, "title": "Page", "paragraph_text": "One.", "is_supporting": True}],
}  # fmt: skip


def lines(*rows: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("name", "file", "content", "expected"),
    [
        (
            "popqa",
            "popQA.tsv",
            b'id\tquestion\tpossible_answers\n7\tWho wrote It?\t"[""King"", ""S. King""]"\n',
            EvalQuestion("7", "Who wrote It?", Task.QUESTION, ("King", "S. King"), "author"),
        ),
        (
            "popqa",
            "popqa_longtail_w_gs.jsonl",
            lines({"id": 7, "question": "Who wrote It?", "answers": ["King"], "ctxs": [{"text": "t"}]}),
            EvalQuestion(
                "7", "Who wrote It?", Task.QUESTION, ("King",), "author", documents=(Passage("t"),)
            ),
        ),
        (
            "arc_challenge",
            "ARC-Challenge-Test.jsonl",
            lines({"id": "m", "question": {"stem": "Which?", "choices": OPTIONS}, "answerKey": "B"}),
            EvalQuestion("m", "Which?", Task.CHOICE, ("snow",), "choice", TWO_CHOICES, "B"),
        ),
        (
            "arc_challenge",
            "arc_challenge_processed.jsonl",
            lines(
                {
                    "id": "m",
                    "question": "Which?",
                    "choices": {"text": ["ice", "snow"], "label": ["A", "B"]},
                    "answerKey": "B",
                }
            ),
            EvalQuestion("m", "Which?", Task.CHOICE, ("snow",), "choice", TWO_CHOICES, "B"),
        ),
        (
            "pubhealth",
            "test.tsv",
            b"claim_id\tclaim\tlabel\n12\tIt cures.\tfalse\n",
            EvalQuestion("12", "It cures.", Task.CLAIM, ("false",), "claim"),
        ),
        (
            "pubhealth",
            "pubqa.jsonl.gz",
            gzip.compress(lines({"id": "p", "claim": "It cures.", "label": None, "internal": []})),
            EvalQuestion("p", "It cures.", Task.CLAIM, (), "claim", documents=()),
        ),
        (
            "hotpotqa",
            "hotpot_dev_distractor_v1.json",
            json.dumps([HOTPOT]).encode(),
            HOTPOT_READ,
        ),
        (
            "2wiki",
            "dev.json",
            json.dumps([HOTPOT]).encode(),
            HOTPOT_READ,
        ),
        (
            "musique",
            "musique_ans_v1.0_dev.jsonl",
            lines(MUSIQUE),
            EvalQuestion(
                "2hop__1_2", "Who?", Task.QUESTION, ("Ann", "Anne"), "2hop",
                documents=(Passage("One.", "Page"),),
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_published_form_is_read(
    tmp_path: Path, name: str, file: str, content: bytes, expected: EvalQuestion
) -> None:
    (tmp_path / file).write_bytes(content)
    assert read_set(tmp_path, name).questions == (expected,)


def test_a_file_may_be_named_instead_of_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(lines({"id": "1", "question": "Who?", "answers": ["Ann"]}))
    assert len(read_set(path, "popqa").questions) == 1


GOOD = lines({"id": "1", "question": "Who?", "answers": ["Ann"]})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (GOOD + GOOD, "ids more than once, such as 1"),
        (GOOD + GOOD[:-20], ":2 is not JSON, and the file ends there: it was cut"),
        (GOOD + b'{"id": "2", "answers": []}\n', "row 2 .* is no question of popqa"),
        (GOOD + b"[1]\n", "row 2 .* is no question"),
        (GOOD + b'{"id": "2", "question": " ", "answers": []}\n', "it has no question"),
        (b"\n", "holds no questions"),
        (GOOD + b"\xff\xfe\n", "is cut or broken"),
    ],
    ids=["duplicate", "cut", "no-question", "no-object", "blank", "empty", "bytes"],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "popqa.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        read_set(tmp_path, "popqa")


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(GOOD.replace(b'"1"', b'"%d"' % i) for i in range(1000)))
    (tmp_path / "popqa.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is cut or broken"):
        read_set(tmp_path, "popqa")


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="neither popqa.jsonl"):
        read_set(tmp_path, "popqa")


def test_an_answer_key_that_is_no_option_is_refused(tmp_path: Path) -> None:
    row = {"id": "m", "question": "Which?", "choices": OPTIONS, "answerKey": "E"}
    (tmp_path / "arc_challenge.jsonl").write_bytes(lines(row))
    with pytest.raises(ValueError, match="answerKey E is none of its choices"):
        read_set(tmp_path, "arc_challenge")


def test_questions_without_gold_are_kept_and_told_apart(tmp_path: Path) -> None:
    (tmp_path / "popqa.jsonl").write_bytes(GOOD + lines({"id": "2", "question": "When?", "answers": []}))
    assert [question.has_gold for question in read_set(tmp_path, "popqa").questions] == [True, False]
