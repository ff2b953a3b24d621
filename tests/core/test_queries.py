import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_core.queries.plan import MAX_TITLES, SearchPlan, Sought
from crag_core.queries.planning import full_text_query, plan_search
from crag_core.queries.reproduction import (
    first_sentences,
    is_valid,
    reads_as_disambiguation,
    reproduction_entity,
    reproduction_plan,
)
from crag_core.queries.validation import (
    has_title_of,
    is_about,
    is_expected,
    lists_meanings,
    match_of,
)
from crag_core.types import Choice, Strategy, Task
from tests.core.query_cases import CASES


def plan(question: str, **more: object) -> SearchPlan:
    return plan_search(Sought(question, **more))  # type: ignore[arg-type]


def titles(planned: SearchPlan, strategy: Strategy) -> list[str]:
    return [query.text for query in planned.queries if query.strategy is strategy]


@pytest.mark.parametrize(("question", "entities"), CASES.items(), ids=list(CASES))
def test_a_question_gives_its_names(question: str, entities: tuple[str, ...] | None) -> None:
    found = plan(question).entities
    if entities is None:
        assert found == ()
    else:
        assert found[: len(entities)] == entities


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(CASES) >= 150


@pytest.mark.parametrize("question", CASES, ids=list(CASES))
def test_every_query_of_a_plan_has_a_text_and_a_reason(question: str) -> None:
    planned = plan(question)
    assert all(query.text.strip() and query.reason for query in planned.queries)
    assert len(planned.titles) <= MAX_TITLES
    assert len({(query.strategy, query.text) for query in planned.queries}) == len(planned.queries)
    if planned.queries:  # full text is the last resort of every plan
        assert planned.queries[-1].strategy is Strategy.SEARCH


@given(st.text(max_size=400))
def test_no_question_is_too_odd_for_a_plan(question: str) -> None:
    planned = plan(question)
    assert len(planned.entities) <= 4
    assert all(query.text for query in planned.queries)


@pytest.mark.parametrize("length", [390, 4_000])
@pytest.mark.parametrize("unit", ["a, ", "A and ", "x's ", "of the ", "- ", "(", "or b ", "，", "a'"])
@pytest.mark.parametrize("head", ["which ", "who ", "do ", "are both ", "what is the ", "between ", ""])
def test_no_wording_takes_long(head: str, unit: str, length: int) -> None:
    question = (head + unit * length)[:length]
    started_s = time.process_time()
    plan(question)
    reproduction_plan(Sought(question))
    assert time.process_time() - started_s < 2.5, "not even on a slow machine"


@pytest.mark.parametrize(
    ("question", "typed"),
    [
        ("Who was the director of Ghost?", "Ghost (film)"),
        ("Who wrote It?", "It (novel)"),
        ("What genre is Drive On?", "Drive On (song)"),
        ("What is John Finlay's occupation?", "John Finlay (politician)"),
        ("Who directed the 1963 film The Hunt?", "The Hunt (1963 film)"),
        ("Which film came out first, Alien or Aliens?", "Aliens (film)"),
        ("who directed jaws", "Jaws (film)"),
    ],
)
def test_a_question_of_a_kind_asks_for_titles_of_that_kind(question: str, typed: str) -> None:
    assert typed in titles(plan(question), Strategy.TYPED)


def test_a_name_in_lower_case_is_looked_up_as_a_title_would_be_written() -> None:
    direct = titles(plan("who wrote the lord of the rings"), Strategy.DIRECT)
    assert "Lord of the Rings" in direct and "The Lord of the Rings" in direct


def test_the_retrieved_context_hints_at_which_of_a_name_is_meant() -> None:
    hints = (
        "Henry Feilden (Conservative politician)\nHenry Feilden (21 February 1818) was one.",
        "Henry Feilden (born 1860) and Henry Feilden (c. 1840) were others.",
    )
    planned = plan("What is Henry Feilden's occupation?", hints=hints)
    assert titles(planned, Strategy.HINT) == ["Henry Feilden (Conservative politician)"]


def test_both_of_two_names_need_a_page_and_of_others_one_is_enough() -> None:
    assert plan("Which film came out first, Alien or Aliens?").needed == 2
    assert plan("Why did Napoleon invade Russia?").needed == 1


def test_a_multiple_choice_looks_up_its_choices_and_searches_for_content_words() -> None:
    choices = (Choice("A", "photosynthesis"), Choice("B", "cellular respiration"), Choice("C", "42 m"))
    planned = plan(
        "Which process lets green plants make sugar from sunlight?", task=Task.CHOICE, choices=choices
    )
    direct = titles(planned, Strategy.DIRECT)
    assert {"Photosynthesis", "Cellular Respiration"} <= set(direct)
    assert not any("42" in title for title in direct)
    assert titles(planned, Strategy.SEARCH) == ["process lets green plants make sugar"]


def test_a_claim_is_searched_by_its_names() -> None:
    planned = plan("Bill Gates says vaccines contain microchips", task=Task.CLAIM)
    assert planned.entities == ("Bill Gates",)
    assert plan("vaccines cause autism", task=Task.CLAIM).entities == ()


def test_a_query_is_looked_up_and_searched_as_it_is() -> None:
    planned = plan("who wrote it", is_query=True)
    assert "who wrote it" in titles(planned, Strategy.SEARCH)
    assert planned.entities == ("who wrote it",)


class Finder:
    """Finds one name."""

    def find(self, text: str) -> list[str]:
        return ["marie curie"]


def test_a_finder_of_names_helps_where_no_rule_finds_one() -> None:
    question = "it was marie curie who won which prize"
    assert plan(question).entities == ()
    assert plan_search(Sought(question), Finder()).entities == ("marie curie",)
    assert plan_search(Sought("Who wrote Dracula?"), Finder()).entities == ("Dracula",)


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is Henry Feilden's occupation?", "Henry Feilden's occupation"),
        ("In what country is Georgia?", "country is Georgia"),
        ("Who was the director of Titanic?", "director of Titanic"),
        ("Alien or Aliens?", "Alien or Aliens"),
        ("Who?", "Who"),
        ("?", ""),
        ("What’s the capital of France?", "capital of France"),
        ("東京はどこですか？", "東京はどこですか"),
        ("well-known film", "well-known film"),
    ],
)
def test_question_words_leave_the_full_text_query(question: str, query: str) -> None:
    assert full_text_query(question) == query


@pytest.mark.parametrize(
    ("entity", "title", "lead", "is_one"),
    [
        ("Henry Feilden", "Henry Feilden (politician)", "He was.", True),
        ("Henry Feilden", "Joseph Feilden", "Joseph was a politician.", True),
        ("Henry Master Feilden", "Joseph Feilden", "Joseph was a politician.", False),
        ("Beyonce", "Beyoncé", "Beyoncé is a singer.", True),
        ("lumpability", "Lump", "A lump is a mass.", False),
        ("It", "Italy", "Italy is a country.", False),
        ("It", "It (novel)", "It is a 1986 horror novel.", True),
        ("東京", "東京都", "日本の首都。", True),
        ("Kale", "Kale", "  ", False),
    ],
)
def test_a_page_must_be_about_the_entity(entity: str, title: str, lead: str, is_one: bool) -> None:
    assert is_about(entity, title, lead) is is_one


def test_a_concept_is_not_the_book_of_that_name() -> None:
    kind = plan("Who wrote It?").kind
    assert not is_expected(
        "It", kind, "It (pronoun)", "In Modern English, it is a third-person pronoun."
    )
    assert is_expected("It", kind, "It (novel)", "It is a 1986 horror novel by Stephen King.")


@pytest.mark.parametrize(
    ("lead", "lists"),
    [
        ("Mercury may refer to:\nMercury (planet)", True),
        ("Ghost can also refer to:", True),
        ("ABC may stand for any of the following:\n* a broadcaster", True),
        ("Springfield may refer to", True),
        ("The Horn may refer to the mountain.", False),
        ("Schadenfreude refers to pleasure at the misfortune of others.", False),
        ("The name may refer to the river in the north of the country, which is long.", False),
        ("", False),
    ],
)
def test_a_page_that_lists_meanings_is_told_from_one_that_defines_a_word(lead: str, lists: bool) -> None:
    assert lists_meanings(lead) is lists


def test_a_year_in_the_question_tells_pages_of_one_name_apart() -> None:
    kind = plan("Who directed the 1963 film The Hunt?").kind
    asked = frozenset({"1963", "film", "hunt"})
    right = match_of("The Hunt", kind, asked, "The Hunt (1963 film)", "A film.")
    wrong = match_of("The Hunt", kind, asked, "The Hunt (2012 film)", "A film.")
    assert right > wrong
    assert has_title_of("the hunt", "The Hunt (1963 film)")


@pytest.mark.parametrize(
    ("question", "entity"),
    [
        ("What is Henry Feilden's occupation", "Henry Feilden"),
        ("Who was the director of Jaws", "Jaws"),
        ("In what city was Charles Hammock born", "Charles Hammock"),
        ("What sport does Armand Raymond play", "Armand Raymond"),
        ("Which film came out first, Alien or Aliens", "Which"),
        ("What is the religion of the author of The Satanic Verses", "the author of The Satanic Verses"),
        ("why is the sky blue", "the sky blue"),
    ],
)
def test_the_reproduction_keeps_its_rules_and_their_faults(question: str, entity: str) -> None:
    assert reproduction_entity(question) == entity


def test_the_reproduction_asks_in_its_order() -> None:
    planned = reproduction_plan(Sought("Who was the director of Jaws?", hints=("Jaws (1975 film)",)))
    assert [(query.strategy, query.text) for query in planned.queries] == [
        (Strategy.DIRECT, "Jaws"),
        (Strategy.TYPED, "Jaws (film)"),
        (Strategy.TYPED, "Jaws film"),
        (Strategy.TYPED, "Jaws (movie)"),
        (Strategy.TYPED, "Jaws movie"),
        (Strategy.SEARCH, "Jaws"),
        (Strategy.SEARCH, "Jaws film"),
        (Strategy.HINT, "Jaws 1975 film"),
    ]


def test_the_reproduction_searches_a_multiple_choice_by_its_first_content_words() -> None:
    planned = reproduction_plan(
        Sought("Which gas do plants absorb during photosynthesis?", task=Task.CHOICE)
    )
    assert [query.text for query in planned.queries] == [
        "plants absorb during",
        "plants absorb",
        "plants absorb during",
        "Which gas do plants absorb during photosynthesis",
    ]


def test_the_reproduction_takes_a_definition_for_a_list_of_meanings() -> None:
    assert reads_as_disambiguation("Schadenfreude refers to pleasure at misfortune.")
    assert not is_valid("Schadenfreude", "Schadenfreude", "Schadenfreude refers to pleasure.")
    assert first_sentences("J. K. Rowling is an author. She wrote.") == "J. K. Rowling is an author"
