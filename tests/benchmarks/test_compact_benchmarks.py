"""The parts of the coverage benchmark that its figures rest on."""

import random
from typing import Any

import pytest

from benchmarks.compact.coverage import holds_answer, sentence_units
from benchmarks.compact.fuzz import broken
from benchmarks.compact.gold_plans import gold_plan
from benchmarks.compact.released_rules import ReleasedRules
from benchmarks.compact.retrievers import PooledPairs
from benchmarks.compact.rule_plans import rule_plan
from crag_core.compact.plan import plan_of
from crag_core.compact.types import ResolvedHop, ScoredPair, SubQuestion
from tests.compact_fakes import FakeExtractor, FakeQARetriever, pair
from tests.deployments.index_files import FakeEncoder
from tests.fakes import context


@pytest.mark.parametrize(
    ("question", "planned"),
    [
        ("Where did the director of film Jaws die?",
         ["Who is the director of film Jaws?", "Where did #1 die?"]),
        ("Who is the spouse of the performer of song Help (Song)?",
         ["Who is the performer of song Help (Song)?", "Who is the spouse of #1?"]),
        ("What is the place of birth of Anna Wright's father?",
         ["Who is the father of Anna Wright?", "Where was #1 born?"]),
        ("Who is Anna Wright's maternal grandfather?",
         ["Who is the mother of Anna Wright?", "Who is the father of #1?"]),
        ("Which film has the director who died first, Jaws or Alien?",
         ["Who is the director of Jaws?", "Who is the director of Alien?", "When did #1 die?",
          "When did #2 die?"]),
        ("Who is Anna Wright's mother?", ["Who is Anna Wright's mother?"]),
    ],
)  # fmt: skip
def test_questions_of_a_known_form_are_decomposed(question: str, planned: list[str]) -> None:
    assert [sub.text for sub in rule_plan(question).sub_questions] == planned


def test_annotations_become_plans() -> None:
    triples = {
        "question": "?",
        "evidences": [["Jaws", "director", "X"], ["X", "place of birth", "Ohio"]],
    }
    steps = {
        "question": "?",
        "decomposition": [{"question": "Ohio >> capital"}, {"question": "Who led #1?"}],
    }
    assert [(sub.text, sub.references) for sub in gold_plan(triples).sub_questions] == [
        ("Who is the director of Jaws?", ()), ("Where was #1 born?", (0,)),
    ]  # fmt: skip
    assert [(sub.text, sub.references) for sub in gold_plan(steps).sub_questions] == [
        ("What is the capital of Ohio?", ()), ("Who led #1?", (0,)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "held"), [("Ohio", True), ("the  OHIO", True), ("Ohi", False), ("Iowa", False)]
)
def test_an_answer_is_held_word_for_word(answer: str, held: bool) -> None:
    hop = ResolvedHop(SubQuestion("?"), 0, "?", (ScoredPair(pair("Where?", "In Ohio."), 1.0),))
    assert holds_answer([hop], [answer]) is held


async def test_the_released_rules_take_one_reference_and_tell_pairs_apart_by_question() -> None:
    plan = plan_of([SubQuestion("A?"), SubQuestion("B?"), SubQuestion("C of #1 and #2?", (0, 1))])
    same = [pair("Same?", "1"), pair("Same?", "2"), pair("Other?", "3")]
    retriever = FakeQARetriever(otherwise=same)
    extractor = FakeExtractor({"A?": "first", "B?": "second"})
    hops = await ReleasedRules(retriever, extractor).resolve(context(), plan)
    assert [found.pair.answer for found in hops[0].found] == ["1", "3"]
    assert retriever.calls[2] == ("C of #1 and second?",)
    assert extractor.calls[2][0].question == "C of #1 and #2?"


async def test_a_pool_finds_by_words_and_meaning_each_unit_once() -> None:
    paragraphs: list[dict[str, Any]] = [
        {"title": "Jaws", "text": "Jaws is a film. It was shot in Ohio."},
        {"title": "Alien", "text": "Alien is a film."},
    ]
    units = sentence_units(paragraphs)
    assert [unit.answer for unit in units] == [
        "Jaws is a film.",
        "It was shot in Ohio.",
        "Alien is a film.",
    ]
    (found,) = await PooledPairs(units, FakeEncoder()).retrieve_pairs(context(), ["Ohio?"], limit=9)
    assert sorted(each.pair.id for each in found) == sorted(unit.id for unit in units)


def test_broken_outputs_differ_and_repeat_by_their_seed() -> None:
    outputs = [broken(random.Random(seed)) for seed in range(50)]
    assert outputs == [broken(random.Random(seed)) for seed in range(50)]
    assert len(set(outputs)) > 40
