from typing import Any

import pytest

from crag_core.compact.knowledge_base import PairFlaw, fact_key, judged
from crag_core.compact.reader import read_pairs

PASSAGE = "Jaws (1975) is a film  directed by Steven Spielberg. It was shot on Martha's Vineyard."


def judge(question: Any, answer: Any, *, title: str = "Jaws (film)", verbatim: bool = True) -> Any:
    return judged(question, answer, title=title, passage=PASSAGE, verbatim=verbatim)


@pytest.mark.parametrize(
    ("question", "answer", "flaw"),
    [
        ("", "1975", PairFlaw.BLANK), (None, "1975", PairFlaw.BLANK), ("Who?", None, PairFlaw.BLANK),
        (["Who?"], {"a": 1}, PairFlaw.BLANK), (True, "1975", PairFlaw.BLANK),
        ("What is the title of the text?", "Jaws", PairFlaw.META),
        ("What does this passage describe?", "a film", PairFlaw.META),
        ("Who made Jaws?", "Peter Benchley", PairFlaw.NOT_VERBATIM),
        ("Who made " + "Jaws " * 50, "1975", PairFlaw.TOO_LONG),
        ("Who was Jaws?", "Jaws", PairFlaw.ECHO),
    ],
)  # fmt: skip
def test_a_bad_pair_is_rejected_with_its_flaw(question: Any, answer: Any, flaw: PairFlaw) -> None:
    assert judge(question, answer).flaw is flaw


@pytest.mark.parametrize(
    ("question", "answer", "repaired", "kept"),
    [
        ("Who directed it?", "Steven Spielberg", "Who directed Jaws?", "Steven Spielberg"),
        ("Who directed the film?", "steven  spielberg.", "Who directed the film Jaws?",
         "Steven Spielberg"),
        ("Where was this film shot?", "martha's vineyard", "Where was Jaws shot?",
         "Martha's Vineyard"),
        ("When did Jaws come out", 1975, "When did Jaws come out?", "1975"),
        ("Who directed Jaws?", "film directed by", "Who directed Jaws?", "film directed by"),
    ],
)  # fmt: skip
def test_what_needs_no_guess_is_repaired(question: Any, answer: Any, repaired: str, kept: str) -> None:
    pair = judge(question, answer)
    assert (pair.flaw, pair.question, pair.answer) == (None, repaired, kept)


def test_without_a_title_there_is_nothing_to_repair_with() -> None:
    assert judge("Who directed it?", "1975", title="").flaw is PairFlaw.POINTS_BACK
    assert judge("Who was first?", "1975", title="").flaw is PairFlaw.NO_ENTITY
    assert judge("Who directed X?", "1975", title="X").flaw is None


def test_published_answers_may_be_sentences_and_lose_their_pronoun() -> None:
    pair = judge("When was Spielberg born?", "He was born in 1946.", title="Spielberg", verbatim=False)
    assert (pair.flaw, pair.answer) == (None, "Spielberg was born in 1946.")
    group = judge("Which \\1 is it?", "It is \\1.", title="R\\1 \\g<0>", verbatim=False)
    assert group.answer == "R\\1 \\g<0> is \\1."


def test_a_word_inside_another_is_no_pronoun() -> None:
    assert judge("Which city was Witham twinned with?", "1975", title="Witham").flaw is None


def test_facts_differ_by_question_or_answer() -> None:
    assert fact_key("Who?", "A.") == fact_key("who", "a")
    assert fact_key("Who?", "A") != fact_key("Who?", "B")


@pytest.mark.parametrize(
    ("written", "count"),
    [('{"qa": [{"question": "Q?", "answer": "A"}]}', 1), ('[{"question": "Q?", "answer": "A"}, 3]', 2),
     ('{"question": "Q?", "answer": "A"}', 1), ('{"qa": null}', 0), ("none", 0),
     ('{"qa": [{"question": "Q?", "answer": "A"}, {"question": "Half', 2)],
)  # fmt: skip
def test_what_a_reader_writes_is_read_in_any_form(written: str, count: int) -> None:
    assert len(read_pairs(written)) == count
