from dataclasses import replace

import pytest

from crag_core.crag import Crag
from crag_core.errors import EvaluationFailed, SearchFailed
from crag_core.generation import AnswerWriter
from crag_core.protocols import Ask
from crag_core.queries.plan import Sought
from crag_core.searching import KnowledgeSearch, choose_among_namesakes, sought_for
from crag_core.settings import CragSettings, SearchingSettings
from crag_core.trace import Recorder
from crag_core.types import (
    Action,
    Answer,
    Choice,
    Degradation,
    Document,
    DocumentSource,
    FoundPage,
    Knowledge,
    Question,
    Reason,
    SearchQuery,
    Stage,
    Strategy,
    Task,
)
from tests.fakes import (
    FakeEvaluator,
    FakeGenerator,
    FakeRetriever,
    FakeSearcher,
    FakeTokenCounter,
    context,
)

NAME = SearchQuery("John Finlay", Strategy.DIRECT, "John Finlay", "X's P")
OTHER = SearchQuery("Poland", Strategy.DIRECT, "Poland", "name in the text")


def document(name: str, text: str = "") -> Document:
    return Document(name, text or f"{name} was somebody.", name, DocumentSource.WIKIPEDIA, revision="7")


def page(
    name: str, query: SearchQuery = NAME, strategy: Strategy = Strategy.DISAMBIGUATION
) -> FoundPage:
    return FoundPage(document(name), query, strategy)


POET, PLAYER, TRADER = page("poet"), page("player"), page("trader")
POLAND = page("Poland", OTHER, Strategy.DIRECT)


@pytest.mark.parametrize(
    ("scores", "margin", "chosen"),
    [
        ({"poet": 0.1, "player": 0.9, "trader": -0.5}, 0.0, [PLAYER]),
        ({"poet": 0.1, "player": 0.9, "trader": 0.85}, 0.1, [PLAYER, TRADER]),
        ({"poet": 0.9, "player": 0.9, "trader": -0.5}, 0.0, [POET, PLAYER]),
        ({}, 0.0, [POET, PLAYER, TRADER]),
        ({"poet": 0.1, "player": 0.2}, 0.0, [PLAYER, TRADER]),  # an empty lead has no score to lose by
    ],
)
def test_of_one_name_the_best_is_chosen_and_those_close_to_it(
    scores: dict[str, float], margin: float, chosen: list[FoundPage]
) -> None:
    found = choose_among_namesakes((POLAND, POET, PLAYER, TRADER), scores, margin)
    assert sorted(page.document.id for page in found[:-1]) == sorted(page.document.id for page in chosen)
    assert found[-1] == POLAND


async def run(
    searcher: FakeSearcher, evaluator: FakeEvaluator, limit: int = 5, **settings: float
) -> tuple[list[str], Recorder]:
    recorder = Recorder()
    search = KnowledgeSearch((searcher,), evaluator, SearchingSettings.model_validate(settings))
    searched = await search.search(context(), Sought("Which Finlay?"), recorder, limit=limit)
    return [document.id for document in searched.documents], recorder


async def test_pages_of_one_name_are_scored_in_one_call_and_the_trace_tells_which_was_used() -> None:
    evaluator = FakeEvaluator({document("player").text: 0.9}, default=-0.9)
    pages = [document(name) for name in ("poet", "player", "trader")]
    found, recorder = await run(FakeSearcher(pages, strategy=Strategy.DISAMBIGUATION), evaluator)
    assert found == ["player"]
    assert len(evaluator.calls) == 1
    searched = recorder.trace(Knowledge()).searched
    assert [(each.title, each.score, each.used, each.revision) for each in searched] == [
        ("poet", -0.9, False, "7"),
        ("player", 0.9, True, "7"),
        ("trader", -0.9, False, "7"),
    ]


async def test_the_margin_is_a_share_of_the_way_between_the_thresholds() -> None:
    scores = {document("player").text: 0.9, document("poet").text: 0.85}  # thresholds are 1.0 apart
    pages = [document(name) for name in ("poet", "player", "trader")]
    searcher = FakeSearcher(pages, strategy=Strategy.DISAMBIGUATION)
    assert (await run(searcher, FakeEvaluator(scores, default=-0.9), same_name_margin=0.1))[0] == [
        "player",
        "poet",
    ]
    assert (await run(searcher, FakeEvaluator(scores, default=-0.9), same_name_margin=0.01))[0] == [
        "player"
    ]


@pytest.mark.parametrize("pages", [["poet"], []])
async def test_a_name_with_one_page_needs_no_evaluation(pages: list[str]) -> None:
    evaluator = FakeEvaluator()
    searcher = FakeSearcher([document(name) for name in pages], strategy=Strategy.DISAMBIGUATION)
    assert (await run(searcher, evaluator))[0] == pages
    assert evaluator.calls == []


async def test_a_failing_choice_is_an_error_and_no_guess() -> None:
    pages = [document("poet"), document("player")]
    searcher = FakeSearcher(pages, strategy=Strategy.DISAMBIGUATION)
    with pytest.raises(EvaluationFailed):
        await run(searcher, FakeEvaluator(error=EvaluationFailed("out of memory")))


def test_what_is_sought_has_choices_and_hints_of_the_context() -> None:
    question = Question("Which?", Task.CHOICE, (Choice("A", "one"),))
    sought = sought_for(question, [document("poet", "x" * 9_000)] * 100)
    assert (sought.text, sought.task, sought.choices) == ("Which?", Task.CHOICE, question.choices)
    assert sought.hints[0].startswith("poet\nxxx")
    assert len(sought.hints) == 20 and len(sought.hints[0]) < 600


LEAD = document("w1", "The page begins with nothing to the point at all.")
PARAGRAPH = Document("w1#3", "He was a fur trader in the far north.", "w1", DocumentSource.WIKIPEDIA)


async def answered(searcher: FakeSearcher, evaluator: FakeEvaluator, **searching: bool) -> Answer:
    settings = CragSettings(searching=SearchingSettings.model_validate(searching))
    writer = AnswerWriter(FakeGenerator(), FakeTokenCounter())
    crag = Crag(FakeRetriever(), evaluator, (searcher,), writer, settings)
    *_, answer = [piece async for piece in crag.stream(context(), Ask(Question("Who was Finlay?")))]
    assert isinstance(answer, Answer) and answer.action is Action.INCORRECT
    return answer


async def test_a_page_whose_lead_says_nothing_is_read_in_full() -> None:
    searcher = FakeSearcher([LEAD], paragraphs=[PARAGRAPH])
    evaluator = FakeEvaluator({LEAD.text: -2.0, PARAGRAPH.text: 0.9}, strip_min_score=-0.5)
    answer = await answered(searcher, evaluator)
    assert searcher.pages_read == ["w1"]
    assert [citation.document_id for citation in answer.citations] == ["w1#3"]
    assert answer.trace.search_requests == 2
    assert answer.trace.fallback is None
    assert answer.degraded == ()


@pytest.mark.parametrize(
    ("lead", "paragraph"),
    [
        (replace(LEAD, is_stale=True), PARAGRAPH),
        (LEAD, replace(PARAGRAPH, is_stale=True)),
        (replace(LEAD, is_stale=True), replace(PARAGRAPH, is_stale=True)),
    ],
    ids=["lead", "paragraph", "both"],
)
async def test_older_copies_that_stood_in_for_a_wiki_are_named_once(
    lead: Document, paragraph: Document
) -> None:
    evaluator = FakeEvaluator({LEAD.text: -2.0, PARAGRAPH.text: 0.9}, strip_min_score=-0.5)
    answer = await answered(FakeSearcher([lead], paragraphs=[paragraph]), evaluator)
    assert answer.degraded == (Degradation(Stage.SEARCH, "search_stale"),)


async def test_a_search_that_failed_after_it_had_found_something_says_so() -> None:
    searcher = FakeSearcher([LEAD], cut_short=Reason.SEARCH_THROTTLED)
    answer = await answered(searcher, FakeEvaluator({LEAD.text: 0.9}, strip_min_score=-0.5))
    assert [page.document_id for page in answer.trace.searched if page.used] == [LEAD.id]
    assert answer.degraded == (Degradation(Stage.SEARCH, "search_throttled"),)


async def test_a_page_whose_lead_says_enough_is_not_read_further() -> None:
    searcher = FakeSearcher([LEAD], paragraphs=[PARAGRAPH])
    await answered(searcher, FakeEvaluator({LEAD.text: -0.4}, strip_min_score=-0.5))
    assert searcher.pages_read == []


async def test_reading_in_full_can_be_switched_off() -> None:
    searcher = FakeSearcher([LEAD], paragraphs=[PARAGRAPH])
    evaluator = FakeEvaluator({LEAD.text: -2.0}, strip_min_score=-0.5)
    answer = await answered(searcher, evaluator, whole_pages=False)
    assert searcher.pages_read == []
    assert answer.trace.fallback == "best_document"


async def test_a_page_that_cannot_be_read_in_full_leaves_its_lead_and_says_so() -> None:
    searcher = FakeSearcher([LEAD], read_error=SearchFailed("down"))
    answer = await answered(searcher, FakeEvaluator({LEAD.text: -2.0}, strip_min_score=-0.5))
    assert [citation.document_id for citation in answer.citations] == ["w1"]
    assert answer.degraded == (Degradation(Stage.SEARCH, "search_failed"),)
