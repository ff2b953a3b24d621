from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from crag_core.compact.answer_rules import extract_by_rule
from crag_core.compact.answer_words import expected_labels
from crag_core.compact.selection import select_pairs
from crag_core.compact.types import AtomicQA, Reading, ScoredPair


@dataclass
class FakeEntities:
    """Finds the entities it is told of, wherever they stand."""

    known: dict[str, str] = field(default_factory=dict)

    def entities(self, texts: Sequence[str]) -> Sequence[Sequence[tuple[str, str]]]:
        return [[(name, label) for name, label in self.known.items() if name in text] for text in texts]


def scored(question: str, answer: str, score: float = 0.7) -> ScoredPair:
    return ScoredPair(AtomicQA(f"{question}{answer}", question, answer, "p"), score)


@pytest.mark.parametrize(
    ("question", "pair_question", "answer", "extracted"),
    [
        ("Who directed Triple Agent?", "Who directed the 2004 film 'Triple Agent'?",
         "Éric Rohmer directed the 2004 film 'Triple Agent'.", "Éric Rohmer"),
        ("Who is the director of The General Line?", "Who directed the film 'The General Line'?",
         "The film 'The General Line' was directed by Sergei Eisenstein and Grigori Aleksandrov.",
         "Sergei Eisenstein"),
        ("Who is the mother of Lorenza Agoncillo?", "Who are Lorenza Agoncillo's parents?",
         "Lorenza Agoncillo's parents are Don Felipe Agoncillo and Marcela Agoncillo",
         "Marcela Agoncillo"),
        ("Who is the father of Lorenza Agoncillo?", "Who are Lorenza Agoncillo's parents?",
         "Lorenza Agoncillo's parents are Don Felipe Agoncillo and Marcela Agoncillo",
         "Don Felipe Agoncillo"),
        ("Where was Francis born?", "Where was Francis born?", "Francis was born in Gyulafehérvár.",
         "Gyulafehérvár"),
        ("Who wrote Jaws?", "Who wrote Jaws?", "Peter Benchley", "Peter Benchley"),
    ],
)  # fmt: skip
def test_the_answer_is_what_the_pair_adds_to_the_question(
    question: str, pair_question: str, answer: str, extracted: str
) -> None:
    (found,) = extract_by_rule(
        [Reading(question, (scored(pair_question, answer),))], FakeEntities({"Gyulafehérvár": "GPE"})
    )
    assert found is not None and found.text == extracted


def test_the_pair_that_fits_the_question_is_read_not_the_first() -> None:
    pairs = (
        scored("What genre is Jaws?", "Jaws is a thriller film of the nineteen-seventies."),
        scored("Who directed Jaws?", "Jaws was directed by Steven Spielberg."),
    )
    (found,) = extract_by_rule([Reading("Who is the director of Jaws?", pairs)], FakeEntities())
    assert found is not None and (found.text, found.pair) == ("Steven Spielberg", 1)


def test_whose_father_someone_is_does_not_say_who_his_father_is() -> None:
    pairs = (
        scored("Who was Leopold?", "Leopold was the father of Maria Antonia of Austria."),
        scored("Who was Leopold?", "Leopold was the son of Karl Salvator and Maria Immaculata.", 0.6),
    )
    (found,) = extract_by_rule([Reading("Who is the father of Leopold?", pairs)], FakeEntities())
    assert found is not None and found.text == "Karl Salvator"


@pytest.mark.parametrize("answer", ["", "  ", ".", "the"])
def test_nothing_is_made_of_nothing(answer: str) -> None:
    readings = [Reading("Who?", (scored("Who?", answer),)), Reading("Who?", ())]
    assert extract_by_rule(readings, FakeEntities()) == [None, None]


@pytest.mark.parametrize(
    ("question", "label"),
    [("When did he die?", "DATE"), ("Where was he born?", "GPE"), ("Who was he?", "PERSON"),
     ("Which country is it in?", "GPE"), ("How many are there?", "CARDINAL")],
)  # fmt: skip
def test_a_question_says_what_kind_of_thing_it_asks_for(question: str, label: str) -> None:
    assert expected_labels(question)[0] == label


def test_each_fact_takes_one_place_and_what_names_the_query_comes_first() -> None:
    found = [
        scored("When was Anna Wright born?", "Anna Wright was born in 1901."),
        scored("When was Éric Rohmer born?", "Éric Rohmer was born on 21 March 1920."),
        scored("When was Éric Rohmer born?", "Rohmer was born on 21 March 1920."),
        scored("Where did Éric Rohmer work?", "He edited Cahiers du cinéma."),
    ]
    kept = select_pairs("Where did Éric Rohmer work?", found, 2)
    assert [pair.pair.answer for pair in kept] == [found[1].pair.answer, found[3].pair.answer]
    assert len(select_pairs("Who?", found, 10)) == 4
    assert select_pairs("Who?", [], 3) == ()
