import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crag_core.compact.plan import normalise_plan
from crag_core.compact.settings import PlanLimits
from crag_core.compact.types import Plan

QUESTION = "Where was the director of Jaws born?"
LIMITS = PlanLimits()
FIRST = {"q": "Who is the director of Jaws?"}


def plan(written: object, question: str = QUESTION, limits: PlanLimits = LIMITS) -> Plan:
    text = written if isinstance(written, str) else json.dumps(written)
    return normalise_plan(text, question, limits)


def texts(found: Plan) -> list[str]:
    return [sub_question.text for sub_question in found.sub_questions]


@pytest.mark.parametrize(
    "second",
    [
        {"q": "Where was #0 born?", "ref": [0], "index": 1},
        {"q": "Where was #1 born?", "ref": "None"},
        {"q": "Where was [answer to Q0] born?", "ref": "0"},
        {"q": "Where was [answer to Q1] born?"},
        {"q": "Where was [the director] born?", "ref": None},
        {"q": "Where was <director's name> born?"},
        {"question": "Where was {answer of question 1} born?", "depends_on": [1], "id": 2},
        {"q": "Where was the answer to question 0 born?"},
    ],
    ids=str,
)
def test_every_way_of_writing_a_reference_means_the_same(second: dict[str, Any]) -> None:
    first = FIRST | {"index": 0} if "index" in second else FIRST | {"id": 1} if "id" in second else FIRST
    found = plan([first, second])
    assert found.sub_questions[1].references == (0,)
    assert found.sub_questions[1].text == "Where was #1 born?"
    assert found.levels == ((0,), (1,))


@pytest.mark.parametrize(
    ("refs", "references"),
    [
        ("0,1", (0, 1)), ([0, "1"], (0, 1)), ("Q0 and Q1", (0, 1)), ([[0]], ()), (1.0, (1,)), (True, ()),
        ("none", ()), ("", ()), ({"a": 1}, ()), ("7", ()), ("2", (1,)),
    ],
    ids=str,
)  # fmt: skip
def test_references_of_any_type_are_read(refs: object, references: tuple[int, ...]) -> None:
    items = [
        {"index": 0, "q": "Who made Jaws?", "ref": "None"},
        {"index": 1, "q": "Who wrote Jaws?", "ref": "None"},
        {"index": 2, "q": "Which film did the two make?", "ref": refs},
    ]
    assert plan(items).sub_questions[2].references == references


@pytest.mark.parametrize("word", ["this director", "that person", "he", "the same person"])
def test_a_word_that_points_back_refers_to_the_question_before(word: str) -> None:
    found = plan([FIRST, {"q": f"Where was {word} born?", "ref": "None"}])
    assert found.sub_questions[1].references == (0,)


def test_labels_counted_from_one_are_understood() -> None:
    items = [
        {"index": 1, "q": "Who made Jaws?", "ref": "None"},
        {"index": 2, "q": "Who was his father?", "ref": "1"},
        {"index": 3, "q": "Where did he live?", "ref": "2"},
    ]
    assert [sub.references for sub in plan(items).sub_questions] == [(), (0,), (1,)]


def test_duplicates_and_copies_of_the_question_go_and_references_follow() -> None:
    items = [
        {"q": "Who made Jaws?"},
        {"q": QUESTION},
        {"q": "who made jaws"},
        {"q": "Where was #3 born?", "ref": "2"},
    ]
    found = plan(items)
    assert texts(found) == ["Who made Jaws?", "Where was #1 born?"]
    assert found.sub_questions[1].references == (0,)


def test_a_cycle_is_broken_at_its_backward_edge() -> None:
    items = [
        {"index": 0, "q": "A of #2?", "ref": [2]},
        {"index": 1, "q": "B of #0?", "ref": [0]},
        {"index": 2, "q": "C of #1?", "ref": [1]},
        {"index": 3, "q": "D of #3?", "ref": [3]},
    ]
    found = plan(items)
    assert sorted(place for level in found.levels for place in level) == [0, 1, 2, 3]
    assert sum(len(sub.references) for sub in found.sub_questions) == 2


def test_comparison_tails_are_left_to_the_synthesis() -> None:
    items = [
        {"index": 0, "q": "When did Jaws come out?", "ref": []},
        {"index": 1, "q": "When did Alien come out?", "ref": []},
        {"index": 2, "q": "Which came out earlier, #0 or #1?", "ref": [0, 1]},
    ]
    found = plan(items, "Which came out earlier, Jaws or Alien?")
    assert [sub.is_comparison for sub in found.sub_questions] == [False, False, True]
    assert found.levels == ((0, 1),)


@pytest.mark.parametrize(
    "written", ["", "I cannot do that.", "[]", "{}", "null", "[1, 2, null]", '"Who?"', "[[[[", "[{}]"]
)
def test_what_cannot_be_read_is_the_question_itself_and_marked(written: str) -> None:
    found = plan(written)
    assert found.is_malformed
    assert texts(found) == [QUESTION]
    assert found.levels == ((0,),)


@pytest.mark.parametrize(
    "written",
    [
        'Here it is:\n```json\n[{"index":0,"q":"Who made Jaws?","ref":"None"},]\n```\nEnjoy.',
        '[{"index":0,"q":"Who made Jaws?","ref":"No',
        "[{'index': 0, 'q': 'Who made Jaws?', 'ref': None}]",
        '{"sub_questions": [{"q": "Who made Jaws?"}]}',
        '{"q": "Who made Jaws?"}',
        '["Who made Jaws?"]',
        '{"1": "Who made Jaws?"}',
    ],
)
def test_broken_and_unusual_json_is_repaired(written: str) -> None:
    found = plan(written)
    assert not found.is_malformed
    assert texts(found) == ["Who made Jaws?"]


def test_thirty_hops_are_cut_to_the_limits_and_marked() -> None:
    items = [{"index": n, "q": f"Who knew #{n - 1}, number {n}?", "ref": [n - 1]} for n in range(30)]
    found = plan(items)
    assert len(found.sub_questions) == LIMITS.max_levels
    assert found.was_cut and len(found.levels) == LIMITS.max_levels


FRAGMENTS = st.sampled_from(
    ['{"q": "', '"ref": [', "#1", "#0", '"index": 1', "]}", "[", "}", ",", '"', "\\", "```json", "None",
     "this film", "[answer to Q0]", "Who made it?", "\u0000", "\ud800", "Š", "1e999", "-1", "null"]
)  # fmt: skip
ENTRIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | FRAGMENTS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(["q", "question", "ref", "index", "id", "depends_on", "plan"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
WRITTEN = (
    st.lists(FRAGMENTS, max_size=30).map("".join)
    | st.text(max_size=100)
    | ENTRIES.map(lambda value: json.dumps(value))
    | st.tuples(ENTRIES.map(lambda value: json.dumps(value)), st.integers(0, 60)).map(
        lambda cut: cut[0][: cut[1]]
    )
)


@settings(max_examples=3_000, deadline=None)
@given(WRITTEN, st.sampled_from([QUESTION, "", "#1?", "[["]))
def test_any_text_becomes_a_plan_that_can_be_resolved(written: str, question: str) -> None:
    found = normalise_plan(written, question, LIMITS)
    placed = [place for level in found.levels for place in level]
    comparisons = [n for n, sub in enumerate(found.sub_questions) if sub.is_comparison]
    assert sorted(placed + comparisons) == list(range(len(found.sub_questions)))
    assert 1 <= len(found.sub_questions) <= LIMITS.max_sub_questions
    assert len(found.levels) <= LIMITS.max_levels
    level_of = {place: level for level, places in enumerate(found.levels) for place in places}
    for place in placed:
        assert all(
            level_of[needed] < level_of[place] for needed in found.sub_questions[place].references
        )


@pytest.mark.parametrize(
    ("question", "first", "added"),
    [
        ("Where was the director of Jaws born?", "Who is the director of Jaws?", "Where was #1 born?"),
        ("When did the wife of John Adams die?", "Who was the wife of John Adams?", "When did #1 die?"),
    ],
)
def test_a_plan_that_stops_short_is_completed_from_the_question(
    question: str, first: str, added: str
) -> None:
    found = plan([{"q": first}], question)
    assert texts(found) == [first, added]
    assert found.levels == ((0,), (1,))
    assert texts(plan([{"q": first}, {"q": added, "ref": [1]}], question)) == [first, added]
