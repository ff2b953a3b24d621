"""The search strategies over a transport that answers as the Action API was seen to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from crag_core.context import Lane
from crag_core.errors import SearchFailed
from crag_core.protocols import SearchResult
from crag_core.queries.plan import SearchPlan, Sought
from crag_core.queries.planning import plan_search
from crag_core.queries.reproduction import reproduction_plan
from crag_core.types import Document, DocumentSource, Strategy
from deployments.backends.wikipedia.mediawiki_api import Page, QueryAnswer
from deployments.backends.wikipedia.paragraphs import first_paragraphs
from deployments.backends.wikipedia.parameters import title_parameters
from deployments.backends.wikipedia.sequential import SequentialStrategies
from deployments.backends.wikipedia.strategies import WikiStrategies

HOST = "en.wikipedia.org"


@dataclass
class FakeWiki:
    """A wiki by title that answers in the shapes of `formatversion=2` and remembers what it was asked.

    `leads` hold the text of articles, `entries` what disambiguation pages link to, `redirects` one step
    each. Full text finds the pages that `hits` lists for a query.
    """

    leads: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    redirects: Mapping[str, str] = field(default_factory=dict)
    hits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    whole: Mapping[str, str] = field(default_factory=dict)
    failing_from: int = 1_000
    asked: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def host(self) -> str:
        return HOST

    async def titled(
        self, titles: Sequence[str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> Sequence[Page | None]:
        answer = await self.query(title_parameters(titles), timeout_s=timeout_s, lane=lane)
        return answer.pages_of(titles)

    async def query(
        self, parameters: Mapping[str, str], *, timeout_s: float, lane: Lane = Lane.INTERACTIVE
    ) -> QueryAnswer:
        assert timeout_s > 0
        self.asked.append(parameters)
        if len(self.asked) >= self.failing_from:
            raise SearchFailed("down")
        return QueryAnswer.model_validate(self._answer(parameters))

    def _answer(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        match parameters.get("generator"):
            case "search":
                found = self.hits.get(parameters["gsrsearch"], ())
                pages = [self._page(title) | {"index": at} for at, title in enumerate(found, 1)]
                if not pages:
                    return {"batchcomplete": True}  # no `query` at all
                return {"batchcomplete": True, "query": {"pages": pages[::-1]}}
            case "links":
                titles = parameters["titles"].split("|")
                linked = [entry for title in titles for entry in self.entries.get(title, ())]
                return {"query": {"pages": [self._page(title) for title in linked]}}
        if "pageids" in parameters:
            title = self._titles[int(parameters["pageids"]) - 1]
            return {"query": {"pages": [self._page(title) | {"extract": self.whole.get(title, "")}]}}
        return self._titled(parameters["titles"].split("|"))

    def _titled(self, titles: Sequence[str]) -> dict[str, Any]:
        normalized, redirects, pages = [], [], {}
        for title in titles:
            upper = title[0].upper() + title[1:]
            if upper != title:
                normalized.append({"fromencoded": False, "from": title, "to": upper})
            seen: list[str] = []
            while upper in self.redirects and upper not in seen:
                seen.append(upper)
                redirects.append({"from": upper, "to": self.redirects[upper]})
                upper = self.redirects[upper]
            if upper not in seen:  # a circle has no page at all
                pages[upper] = self._page(upper)
        return {"query": {"normalized": normalized, "redirects": redirects, "pages": [*pages.values()]}}

    @property
    def _titles(self) -> list[str]:
        return [*self.leads, *self.entries]

    def _page(self, title: str) -> dict[str, Any]:
        if title not in self._titles:
            return {"ns": 0, "title": title, "missing": True}
        number = self._titles.index(title) + 1
        page: dict[str, Any] = {
            "pageid": number,
            "ns": 0,
            "title": title,
            "lastrevid": 100 + number,
            "canonicalurl": f"https://{HOST}/wiki/{title.replace(' ', '_')}",
        }
        if title in self.entries:
            return page | {"extract": f"{title} may refer to:", "pageprops": {"disambiguation": ""}}
        return page | {"extract": f"{self.leads[title]}\n\n"}

    @property
    def kinds(self) -> list[str]:
        """What each request was: titles, links, search, or a whole page."""
        return [
            asked.get("generator") or ("titles" if "titles" in asked else "whole")
            for asked in self.asked
        ]


async def search(
    wiki: FakeWiki, question: str, *, limit: int = 5, max_requests: int = 3, **sought: Any
) -> SearchResult:
    plan = plan_search(Sought(question, **sought))
    return await WikiStrategies(wiki, max_requests).search(plan, limit=limit, timeout_s=5)


def found(result: SearchResult) -> dict[str, Strategy]:
    return {page.document.title: page.strategy for page in result.pages}


JAWS = FakeWiki(
    {
        "Jaws": "A jaw is a structure at the entrance of the mouth.",
        "Jaws (film)": "Jaws is a 1975 American thriller film directed by Steven Spielberg.",
        "Jaws (novel)": "Jaws is a novel by Peter Benchley.",
    }
)


async def test_direct_and_typed_titles_go_in_one_request() -> None:
    wiki = replace(JAWS, asked=[])
    result = await search(wiki, "Who was the director of Jaws?")
    assert found(result) == {"Jaws (film)": Strategy.TYPED}
    assert result.requests == len(wiki.asked) == 1
    assert wiki.asked[0]["titles"].split("|")[:2] == ["Jaws", "Jaws (film)"]


async def test_a_page_becomes_a_document_with_its_revision_and_address() -> None:
    result = await search(JAWS, "Who was the director of Jaws?")
    assert result.pages[0].document == Document(
        id="wikipedia:2",
        text=JAWS.leads["Jaws (film)"],
        title="Jaws (film)",
        source=DocumentSource.WIKIPEDIA,
        url=f"https://{HOST}/wiki/Jaws_(film)",
        revision="102",
    )


async def test_two_entities_are_looked_up_together() -> None:
    wiki = FakeWiki({"Alien (film)": "Alien is a 1979 film.", "Aliens (film)": "Aliens is a 1986 film."})
    result = await search(wiki, "Which film came out first, Alien or Aliens?")
    assert found(result) == {"Alien (film)": Strategy.TYPED, "Aliens (film)": Strategy.TYPED}
    assert wiki.kinds == ["titles"]


async def test_only_the_entity_without_a_page_is_searched_for() -> None:
    wiki = FakeWiki(
        {"Alien (film)": "Alien is a 1979 film.", "Aliens, the film": "Aliens is a 1986 film."},
        hits={"Aliens": ["Aliens, the film"]},
    )
    result = await search(wiki, "Which film came out first, Alien or Aliens?")
    assert found(result) == {"Alien (film)": Strategy.TYPED, "Aliens, the film": Strategy.SEARCH}
    assert wiki.kinds == ["titles", "search"]


async def test_a_concept_of_the_name_gives_way_to_what_was_asked_for() -> None:
    wiki = FakeWiki(
        {"Mother": "A mother is the female parent.", "Mother (Luna Sea song)": "Mother is a song."},
        hits={"Mother": ["Mother", "Mother (Luna Sea song)"]},
    )
    result = await search(wiki, "What genre is Mother?")
    assert found(result) == {"Mother (Luna Sea song)": Strategy.SEARCH}


async def test_a_concept_is_given_when_there_is_nothing_else() -> None:
    wiki = FakeWiki({"Mother": "A mother is the female parent."})
    result = await search(wiki, "What genre is Mother?")
    assert found(result) == {"Mother": Strategy.DIRECT}


async def test_a_page_of_the_very_name_is_not_lost_to_one_that_only_mentions_it() -> None:
    wiki = FakeWiki(
        {"The End of the Soul": "It treats French atheists.", "Rival": "A book on the end of the soul."},
        hits={"The End of the Soul": ["Rival"]},
    )
    result = await search(wiki, "Who is the author of The End of the Soul?")
    assert list(found(result)) == ["The End of the Soul", "Rival"]


FINLAYS = {
    "John Finlay (poet)": "John Finlay was a Scottish poet.",
    "John Finlay (footballer)": "John Finlay is a footballer who was born in 1919.",
    "John Finlay (fur trader)": "John Finlay was a fur trader.",
    "Scotland": "Scotland is a country.",
}


async def test_entries_of_a_disambiguation_page_come_all_and_without_its_other_links() -> None:
    wiki = FakeWiki(FINLAYS, {"John Finlay": [*FINLAYS]})
    result = await search(wiki, "What is John Finlay's occupation?", limit=1)
    assert set(found(result)) == {*FINLAYS} - {"Scotland"}
    assert set(found(result).values()) == {Strategy.DISAMBIGUATION}
    assert wiki.kinds == ["titles", "links"]
    assert wiki.asked[1]["titles"] == "John Finlay"


async def test_a_guessed_qualifier_does_not_settle_which_person_is_meant() -> None:
    wiki = FakeWiki(FINLAYS, {"John Finlay": [*FINLAYS]})
    result = await search(wiki, "What is John Finlay's occupation?")
    assert "John Finlay (poet)" in found(result)


async def test_a_qualifier_that_the_question_asks_for_settles_it() -> None:
    wiki = FakeWiki(
        {"Ghost (film)": "Ghost is a 1990 film.", "Ghost (band)": "Ghost is a band."},
        {"Ghost": ["Ghost (film)", "Ghost (band)"]},
    )
    result = await search(wiki, "Who was the director of Ghost?")
    assert found(result) == {"Ghost (film)": Strategy.TYPED}
    assert wiki.kinds == ["titles"]


async def test_a_definition_is_no_disambiguation_page() -> None:
    wiki = FakeWiki({"Schadenfreude": "Schadenfreude refers to pleasure at misfortune."})
    assert found(await search(wiki, "What is schadenfreude?")) == {"Schadenfreude": Strategy.DIRECT}


async def test_a_wiki_without_the_page_property_is_understood_by_the_wording() -> None:
    wiki = FakeWiki({"Mercury": "Mercury may refer to:"}, hits={"Mercury": ["Mercury"]})
    assert found(await search(wiki, "What is Mercury?")) == {}


@pytest.mark.parametrize(
    ("redirects", "title"),
    [
        ({"BSOD": "Blue Screen", "Blue Screen": "Blue screen of death"}, "Blue screen of death"),
        ({"BSOD": "Loop", "Loop": "BSOD"}, None),
        ({"BSOD": "Nowhere"}, None),
    ],
    ids=["chain", "circle", "nowhere"],
)
async def test_redirects_are_followed_to_their_end(redirects: dict[str, str], title: str | None) -> None:
    wiki = FakeWiki({"Blue screen of death": "The blue screen is an error screen."}, redirects=redirects)
    result = await search(wiki, "What does BSOD stand for?")
    assert list(found(result)) == ([title] if title else [])


async def test_first_letters_and_spellings_are_normalised() -> None:
    wiki = FakeWiki({"Kale": "Kale is a vegetable.", "Beyoncé": "Beyoncé is a singer."})
    assert list(found(await search(wiki, "Is kale a vegetable?"))) == ["Kale"]
    assert list(found(await search(wiki, "Who is Beyonce\u0301?"))) == ["Beyoncé"]


async def test_a_name_without_its_middle_name_must_have_it_in_the_lead() -> None:
    wiki = FakeWiki({"Florence Harsant": "Florence Marie Harsant was a writer."})
    result = await search(wiki, "In what city was Florence Marie Harsant born?")
    assert found(result) == {"Florence Harsant": Strategy.DIRECT}
    other = FakeWiki({"Florence Harsant": "Florence Jane Harsant was a nurse."})
    assert found(await search(other, "In what city was Florence Marie Harsant born?")) == {}


async def test_a_page_without_a_lead_is_read_in_full() -> None:
    wiki = FakeWiki(
        {"Sar Giz": ""}, whole={"Sar Giz": "== Location ==\nSar Giz is a village in Iran.\n\n== See =="}
    )
    result = await search(wiki, "In what country is Sar Giz?")
    assert [page.document.text for page in result.pages] == ["Sar Giz is a village in Iran."]
    assert wiki.kinds == ["titles", "whole"]


async def test_a_search_never_swaps_the_title_for_another() -> None:
    wiki = FakeWiki(
        {"Lump": "A lump is a swelling.", "Lumpability": "Lumpability is a method."},
        hits={"lumpability": ["Lump"]},
    )
    assert list(found(await search(wiki, "What is lumpability?"))) == ["Lumpability"]
    without = replace(wiki, leads={"Lump": "A lump is a swelling."}, asked=[])
    assert found(await search(without, "What is lumpability?")) == {}


async def test_nothing_there_is_an_empty_result_and_echoes_nothing() -> None:
    wiki = FakeWiki({"Occupation": "An occupation is a job."})
    result = await search(wiki, "What is the occupation of Zxqwv Blorptangle?")
    assert result.pages == ()
    assert result.requests == len(wiki.asked) <= 3


async def test_words_that_few_pages_have_are_not_searched_for_among_more() -> None:
    wiki = FakeWiki({"Larder": "A larder is a room."}, hits={"Ada Quill": ["Larder"]})
    await search(wiki, "What is the occupation of Ada Quill?")
    assert wiki.kinds == ["titles", "search"]


async def test_signs_alone_are_searched_for() -> None:
    wiki = FakeWiki({"Infinity": "Infinity, ∞, is without end."}, hits={"∞": ["Infinity"]})
    await search(wiki, "What is ∞?")
    assert wiki.kinds[-1] == "search"


async def test_a_search_that_has_more_than_was_asked_for_is_narrowed() -> None:
    leads = {f"Room {number}": "A room is a part of a house." for number in range(10)}
    wiki = FakeWiki(leads, hits={"Ada Quill": list(leads)})
    await search(wiki, "What is the occupation of Ada Quill?")
    assert wiki.kinds == ["titles", "search", "search"]


@pytest.mark.parametrize("allowed", [1, 2, 3])
async def test_no_search_sends_more_requests_than_allowed(allowed: int) -> None:
    wiki = FakeWiki(FINLAYS, {"Alien": ["Scotland"]})
    result = await search(wiki, "Which film came out first, Alien or Aliens?", max_requests=allowed)
    assert result.requests == len(wiki.asked) == allowed


async def test_a_question_of_nothing_sends_no_request() -> None:
    wiki = FakeWiki()
    assert await search(wiki, " ?") == SearchResult()
    assert wiki.asked == []


async def test_titles_that_no_wiki_has_are_not_sent() -> None:
    wiki = FakeWiki(hits={"C#": []})
    await search(wiki, "Who created C#?")
    assert wiki.kinds == ["search"]
    assert all("#" not in asked.get("titles", "") for asked in wiki.asked)


async def test_operators_of_a_question_are_words() -> None:
    wiki = FakeWiki()
    await search(wiki, 'intitle:secret -Dracula insource:/.*/ "x', is_query=True)
    assert [asked["gsrsearch"] for asked in wiki.asked if "gsrsearch" in asked] == [
        "intitle secret Dracula insource /. / x"
    ]


async def test_a_failing_first_request_is_an_outage() -> None:
    with pytest.raises(SearchFailed):
        await search(replace(JAWS, failing_from=1, asked=[]), "Who was the director of Jaws?")


async def test_a_later_failure_keeps_what_was_found_and_hides_nothing_else() -> None:
    question = "Which film came out first, Alien or Aliens?"
    wiki = FakeWiki({"Alien (film)": "Alien is a 1979 film."}, failing_from=2)
    result = await search(wiki, question)
    assert (list(found(result)), result.cut_short) == (["Alien (film)"], "search_failed")
    whole = await search(replace(wiki, failing_from=1_000, asked=[]), question)
    assert (list(found(whole)), whole.cut_short) == (["Alien (film)"], None)
    with pytest.raises(SearchFailed):
        await search(FakeWiki(failing_from=2), question)


async def test_the_hinted_title_is_looked_up_with_the_others() -> None:
    hint = "John Finlay (fur trader)\nJohn Finlay was."
    result = await search(FakeWiki(FINLAYS), "What is John Finlay's occupation?", hints=(hint,))
    assert found(result)["John Finlay (fur trader)"] is Strategy.HINT


async def test_a_whole_page_comes_in_paragraphs_without_headings() -> None:
    plot = "== Plot ==\nA shark eats people at a beach.\n\n=== See also ===\nOther things."
    text = f"Jaws is a film.\n\n\n{plot}"
    wiki = replace(JAWS, whole={"Jaws (film)": text}, asked=[])
    page = (await search(wiki, "Who was the director of Jaws?")).pages[0].document
    paragraphs = await WikiStrategies(wiki).read(page, timeout_s=5)
    assert [(part.id, part.text, part.title) for part in paragraphs] == [
        ("wikipedia:2#1", "Jaws is a film.", "Jaws (film)"),
        ("wikipedia:2#2", "A shark eats people at a beach.", "Jaws (film)"),
    ]


def test_first_paragraphs_are_bounded() -> None:
    assert len(first_paragraphs("word " * 10_000)) <= 2_000


async def reproduce(wiki: FakeWiki, question: str) -> SearchResult:
    plan: SearchPlan = reproduction_plan(Sought(question))
    return await SequentialStrategies(wiki).search(plan, limit=5, timeout_s=5)


async def test_the_reproduction_asks_one_page_at_a_time_and_stops_at_the_first() -> None:
    wiki = FakeWiki({"Jaws (film)": "Jaws is a film. It is old. It is long. It is loud."})
    result = await reproduce(wiki, "Who was the director of Jaws?")
    assert [asked["titles"] for asked in wiki.asked] == ["Jaws", "Jaws (film)"]
    assert [page.document.text for page in result.pages] == ["Jaws is a film. It is old. It is long"]


async def test_the_reproduction_follows_a_disambiguation_page() -> None:
    wiki = FakeWiki(FINLAYS, {"John Finlay": [*FINLAYS]})
    result = await reproduce(wiki, "What is John Finlay's occupation?")
    assert found(result) == {"John Finlay (footballer)": Strategy.DISAMBIGUATION}


async def test_the_reproduction_searches_last() -> None:
    wiki = FakeWiki(
        {"Jaws 2": "Jaws 2 is a film."}, hits={"Jaws": ["Nothing", "Jaws 2"], "Jaws film": ["Jaws 2"]}
    )
    result = await reproduce(wiki, "Who was the director of Jaws?")
    assert found(result) == {"Jaws 2": Strategy.SEARCH}
    assert wiki.kinds == ["titles"] * 5 + ["search"] + ["titles"] * 2
