import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_core.settings import DecomposeMode, RecomposeOrder, RefinementSettings, StripFilter
from crag_core.strips import decompose, excerpt, recompose, select, sentence_spans, word_count
from crag_core.types import Document, ScoredStrip, Strip


def settings(**changes: object) -> RefinementSettings:
    return RefinementSettings.model_validate({"min_strip_words": 0, **changes})


def texts(text: str, **changes: object) -> list[str]:
    return [strip.text for strip in decompose(Document("d", text), settings(**changes))]


@pytest.mark.parametrize(
    "sentences",
    [
        ["J. K. Rowling is a British author.", "She wrote Harry Potter."],
        ["Washington, D.C. is the capital of the United States.", "It was founded in 1790."],
        ["Yahoo! Inc. was founded by Jerry Yang and David Filo.", "It grew fast."],
        ["Dr. Smith met Mr. Jones at 5 p.m. in St. Louis.", "They talked.", "The U.S. Army left."],
        ["The population was 3.5 million in 1990.", "It fell by 2.1% later."],
        ["J. R. R. Tolkien taught at Oxford, e.g. at Merton.", "No. 5 was his house."],
        ['"Really?" she asked.', "He left."],
        ["Born in 1818 (d. 1875), he was a politician.", "He sat for Blackburn."],
        ["東京は日本の首都である。", "人口は1400万人だ。"],
        ["北京是中国的首都。", "城市很大！", "你去过吗？"],
        ["القاهرة هي عاصمة مصر.", "هل زرتها؟", "إنها كبيرة."],
        ["दिल्ली भारत की राजधानी है।", "यह बहुत बड़ी है।"],
        ["Москва — столица России.", "Она велика."],
        ["I love 🍕!", "Do you?", "👩‍👩‍👧‍👦 is a family emoji."],
        [unicodedata.normalize("NFD", "Beyoncé sang."), "She won."],
    ],
    ids=lambda sentences: sentences[0][:20],
)
def test_sentences_are_found_in_every_script(sentences: list[str]) -> None:
    text = ("" if sentences[0][-1] in "。！" else " ").join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_a_line_break_ends_a_sentence() -> None:
    text = "First line\nsecond line without a stop\n\nThird."
    assert [text[a:b] for a, b in sentence_spans(text)] == [
        "First line",
        "second line without a stop",
        "Third.",
    ]


@pytest.mark.parametrize(
    ("count", "windows"), [(1, [1]), (2, [2]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])]
)
def test_short_passages_are_one_strip_and_longer_ones_windows_of_three(
    count: int, windows: list[int]
) -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(count))
    assert [strip.count("Sentence") for strip in texts(text)] == windows


@pytest.mark.parametrize(
    ("words", "windows"),
    [(1, [1]), (50, [50]), (59, [59]), (60, [50, 10]), (100, [50, 50]), (109, [50, 59])],
)
def test_fixed_windows_have_fifty_words_and_a_short_tail_joins_the_one_before(
    words: int, windows: list[int]
) -> None:
    text = " ".join(f"w{n}" for n in range(words))
    assert [len(strip.split()) for strip in texts(text, mode="fixed_num")] == windows


def test_excerption_joins_short_pieces_drops_repeats_and_groups_by_three() -> None:
    long = [f"Piece {n} of the passage has many words. " for n in range(4)]
    text = long[0] + "Short one. " + long[1] + long[1] + long[2] + long[3]
    strips = texts(text, mode="excerption")
    assert len(strips) == 2
    assert strips[0].startswith(long[0] + "Short one.")
    assert strips[1] == long[3].strip()


def test_selection_is_the_whole_passage() -> None:
    assert texts("  One. Two. Three. Four. ", mode="selection") == ["One. Two. Three. Four."]


@pytest.mark.parametrize("mode", list(DecomposeMode))
def test_strips_under_four_words_are_dropped(mode: DecomposeMode) -> None:
    assert decompose(Document("d", "Only three words."), RefinementSettings(mode=mode)) == ()


def test_scripts_without_spaces_are_not_dropped_as_short() -> None:
    assert word_count("東京は日本の首都である。") >= 4
    assert len(decompose(Document("d", "東京は日本の首都である。"), RefinementSettings())) == 1


def test_a_run_without_a_sentence_end_is_cut_at_a_word() -> None:
    strips = texts("word " * 450)
    assert [len(strip.split()) for strip in strips] == [200, 200, 50]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t\x00 "])
@pytest.mark.parametrize("mode", list(DecomposeMode))
def test_nothing_comes_from_nothing(text: str, mode: DecomposeMode) -> None:
    assert decompose(Document("d", text), RefinementSettings(mode=mode)) == ()


@given(text=st.text(max_size=300), mode=st.sampled_from(DecomposeMode))
def test_every_strip_is_a_slice_of_its_document(text: str, mode: DecomposeMode) -> None:
    document = Document("d", text)
    refinement = settings(mode=mode)
    strips = [ScoredStrip(strip, float(n)) for n, strip in enumerate(decompose(document, refinement))]
    kept = recompose(select(strips, refinement, -1.0), [document], RecomposeOrder.DOCUMENT)
    for scored in kept:
        assert scored.strip.text == text[scored.strip.start : scored.strip.end]
        assert scored.strip.text.strip() == scored.strip.text != ""
    starts = [scored.strip.start for scored in kept]
    assert starts == sorted(starts)


def test_an_excerpt_ends_with_a_sentence_within_the_limit() -> None:
    text = "Four words stand here. " * 10
    strip = excerpt(Document("d", text), max_words=10)
    assert strip.text == "Four words stand here. Four words stand here."
    assert excerpt(Document("d", text), max_words=100).text == text.strip()


def scored(score: float, start: int = 0, document_id: str = "d") -> ScoredStrip:
    return ScoredStrip(Strip(f"{score}", document_id, start, start + 1), score)


def test_select_drops_below_the_threshold_then_keeps_the_best() -> None:
    strips = [scored(score) for score in (-0.6, 0.3, -0.5, 0.9, 0.1)]
    kept = select(strips, RefinementSettings(max_strips=3), -0.5)
    assert [s.score for s in kept] == [0.9, 0.3, 0.1]
    kept = select(strips, RefinementSettings(max_strips=9), -0.5)
    assert [s.score for s in kept] == [0.9, 0.3, 0.1, -0.5]


def test_the_original_filter_keeps_the_top_whatever_their_score() -> None:
    strips = [scored(score) for score in (-3.0, -2.0, -9.0)]
    kept = select(strips, RefinementSettings(filter=StripFilter.TOP, max_strips=2), 0.5)
    assert [s.score for s in kept] == [-2.0, -3.0]


def test_recompose_orders_by_document_or_by_score() -> None:
    documents = [Document("a", ""), Document("b", "")]
    strips = [scored(0.9, 5, "b"), scored(0.8, 0, "b"), scored(0.1, 7, "a")]
    by_document = recompose(strips, documents, RecomposeOrder.DOCUMENT)
    assert [s.score for s in by_document] == [0.1, 0.8, 0.9]
    by_score = recompose(strips, documents, RecomposeOrder.SCORE)
    assert [s.score for s in by_score] == [0.9, 0.8, 0.1]


@pytest.mark.parametrize(
    "text",
    [
        "a) b) c) i) ii) iii) " * 500,
        "a.\n" * 3_000,
        "1. 2. 3. " * 1_000,
        "x" * 50_000,
        "Mr. Dr. No. " * 800,
    ],
    ids=["list", "lines", "numbers", "one-word", "abbreviations"],
)
def test_hostile_text_is_cut_in_bounded_work(text: str) -> None:
    strips = texts(text)
    assert all(word_count(strip) <= 200 for strip in strips)
    assert word_count(excerpt(Document("d", text), 50).text) <= 50


@pytest.mark.parametrize(
    "text",
    [
        "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
        "ရန်ကုန်မြို့သည်မြန်မာနိုင်ငံ၏အကြီးဆုံးမြို့ဖြစ်သည်။",
        "ភ្នំពេញគឺជារាជធានីនៃព្រះរាជាណាចក្រកម្ពុជា",
    ],
    ids=["thai", "burmese", "khmer"],
)
def test_other_scripts_without_spaces_count_and_are_cut(text: str) -> None:
    assert len(decompose(Document("d", text), RefinementSettings())) == 1
    assert len(decompose(Document("d", text * 200), RefinementSettings())) > 5
