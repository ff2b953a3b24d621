import pytest

from crag_core.compact.grounding import ground_by_rule, ground_marks, is_clean, is_faithful
from crag_core.compact.types import Rewriting, SubQuestion


@pytest.mark.parametrize(
    ("text", "grounded"),
    [
        ("Where was #1 born?", "Where was Šárka Ó Briain born?"),
        ("When did #1's mother die?", "When did Šárka Ó Briain's mother die?"),
        ("When was this director born?", "When was Šárka Ó Briain born?"),
        ("Who is his father?", "Who is Šárka Ó Briain's father?"),
        ("What is that person's nationality?", "What is Šárka Ó Briain's nationality?"),
        ("Where did she study?", "Where did Šárka Ó Briain study?"),
        ("What award?", "Šárka Ó Briain: What award?"),
        ("Who directed It and His Girl Friday?", "Šárka Ó Briain: Who directed It and His Girl Friday?"),
    ],
)
def test_the_answer_takes_the_place_that_refers_to_it(text: str, grounded: str) -> None:
    marked, entities = ground_marks(SubQuestion(text, (0,)), {0: "Šárka Ó Briain"})
    assert ground_by_rule(marked, entities) == grounded


def test_an_answer_is_never_read_as_a_reference() -> None:
    marked, _ = ground_marks(SubQuestion("Who sang #1 and #2?", (0, 1)), {0: r"#2 \1 \g<0>", 1: "Help!"})
    assert marked == r"Who sang #2 \1 \g<0> and Help!?"


@pytest.mark.parametrize(
    ("rewritten", "faithful"),
    [
        ("When did Amy Madigan marry Ed Harris?", True),
        ("When did amy madigan marry Ed Harris?", True),
        ("When did Amy Mitchell marry Ed Harris?", False),
        ("When did Amy Madigan marry?", False),
        ("When did Amy Madigan marry Ed Harris in Paris?", False),
        ("When did this Amy Madigan marry Ed Harris with her?", False),
        ("</s> When did Amy Madigan marry Ed Harris?", False),
        ("", False),
        (None, False),
        ("Amy Madigan Ed Harris " * 100, False),
    ],
)
def test_a_rewriting_is_taken_only_when_it_loses_and_invents_no_name(
    rewritten: str | None, faithful: bool
) -> None:
    assert is_faithful(Rewriting("When did she marry Ed Harris?", "Amy Madigan"), rewritten) is faithful


@pytest.mark.parametrize(
    ("answer", "clean"),
    [("Paris", True), (" ", False), ("s</s>", False), ("[CLS]", False), ("<s>", False)],
)
def test_tokens_of_a_model_are_no_answer(answer: str, clean: bool) -> None:
    assert is_clean(answer) is clean
