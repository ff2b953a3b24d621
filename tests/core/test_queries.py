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
        ("What’s the capital of France?", "capital of France"),
        ("東京はどこですか？", "東京はどこですか"),
        ("well-known film", "well-known film"),
    ],
)
def test_question_words_leave_the_query(question: str, query: str) -> None:
    assert search_query(question) == query
