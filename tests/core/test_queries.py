import pytest

from crag_core.queries import search_query


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is Henry Feilden's occupation?", "Henry Feilden's occupation"),
        ("In what country is Georgia?", "country is Georgia"),
        ("Who wrote It?", "wrote It"),
        ("Who was the director of Titanic?", "director of Titanic"),
        ("Alien or Aliens?", "Alien or Aliens"),
        ("Who?", "Who"),
        ("?", ""),
        ("", ""),
        ('insource:/x/ "a" -b +c [d] {e} f|g', "/x/ a b c d e f g"),
        ("東京はどこですか？", "東京はどこですか"),
        ("well-known film", "well-known film"),
    ],
)
def test_question_words_and_operators_leave_the_query(question: str, query: str) -> None:
    assert search_query(question) == query


@pytest.mark.parametrize("question", ["word " * 500, "x" * 5000])
def test_a_query_is_short_enough_for_the_api(question: str) -> None:
    assert 0 < len(search_query(question)) <= 300
