"""Knowledge strips: decompose a document, select the relevant strips, recompose them.

The algorithm inside knowledge refinement (CRAG, section 4.4). Every strip is a slice of its
document, so that a citation can point at the exact place.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import sentencex

from crag_core.settings import DecomposeMode, RecomposeOrder, RefinementSettings, StripFilter
from crag_core.types import Document, ScoredStrip, Strip

Span = tuple[int, int]

_LANGUAGE_OF_SCRIPT = {
    "CJK": "zh",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "ARABIC": "ar",
    "DEVANAGARI": "hi",
    "CYRILLIC": "ru",
    "GREEK": "el",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am",
    "MYANMAR": "my",
}
_LETTERS_SAMPLED = 200
_SEGMENT_LIMIT = 2_000
"""Characters segmented at a time: for some scripts the segmenter's time grows with their square."""

_FIXED_TAIL_WORDS = 10
_EXCERPTION_SHORT_WORDS = 5


def decompose(document: Document, settings: RefinementSettings) -> tuple[Strip, ...]:
    """Cut a document into knowledge strips by the mode of the settings; too short ones are dropped.

    Offsets are code points into the document's text.
    """
    text = document.text
    match settings.mode:
        case DecomposeMode.SELECTION:
            spans = [_trimmed(text, (0, len(text)))]
        case DecomposeMode.FIXED_NUM:
            spans = _fixed_windows(text, settings.words_per_strip)
        case DecomposeMode.EXCERPTION:
            spans = _windows(_excerption_pieces(text), settings.sentences_per_strip)
        case DecomposeMode.SENTENCES:
            spans = [
                short
                for window in _windows(sentence_spans(text), settings.sentences_per_strip)
                for short in _cut_long(text, window, settings.max_strip_words)
            ]
    return tuple(
        Strip(text[start:end], document.id, start, end)
        for start, end in spans
        if start < end and word_count(text[start:end]) >= settings.min_strip_words
    )


def excerpt(document: Document, max_words: int) -> Strip:
    """The document as one strip: whole, or its leading sentences up to `max_words` words."""
    text = document.text
    start, end = _trimmed(text, (0, len(text)))
    if word_count(text) > max_words:
        limit = list(islice(word_spans(text), max_words))[-1][1]
        ends = [stop for _, stop in sentence_spans(text[:limit])]
        end = ends[-2] if len(ends) > 1 else limit
    return Strip(text[start:end], document.id, start, end)


def select(
    strips: Sequence[ScoredStrip], settings: RefinementSettings, min_score: float
) -> tuple[ScoredStrip, ...]:
    """Keep the best strips, best first; ties go to the earlier strip.

    The original keeps the top n; the reproduction drops those below `min_score` first.
    """
    ranked = sorted(strips, key=lambda scored: _score(scored), reverse=True)
    match settings.filter:
        case StripFilter.TOP:
            kept = ranked
        case StripFilter.THRESHOLD_THEN_TOP:
            kept = [scored for scored in ranked if _score(scored) >= min_score]
    return tuple(kept[: settings.max_strips])


def recompose(
    strips: Sequence[ScoredStrip], documents: Sequence[Document], order: RecomposeOrder
) -> tuple[ScoredStrip, ...]:
    """Order kept strips: by score (parity), or as they stand in the documents (CRAG, section 4.4)."""
    match order:
        case RecomposeOrder.SCORE:
            return tuple(sorted(strips, key=lambda scored: _score(scored), reverse=True))
        case RecomposeOrder.DOCUMENT:
            rank = {document.id: position for position, document in enumerate(documents)}
            return tuple(sorted(strips, key=lambda s: (rank[s.strip.document_id], s.strip.start)))


def sentence_spans(text: str) -> list[Span]:
    """Sentences of a text in any script, as code-point spans without surrounding white space.

    Line breaks end a sentence; inside a line the segmenter of the script's language decides.
    """
    spans: list[Span] = []
    for start, end in _lines(text):
        line = (
            text[start:end].encode("utf-8", "replace").decode()
        )  # halves of surrogate pairs are no text
        for sentence in sentencex.get_sentence_boundaries(script_language(line), line):
            spans.append(
                _trimmed(text, (start + sentence["start_index"], start + sentence["end_index"]))
            )
    return [span for span in spans if span[0] < span[1]]


def script_language(text: str) -> str:
    """The segmenter's language for the script most letters of the text are written in."""
    if text.isascii():  # the usual case, told a hundred times faster
        return "en"
    letters = islice((char for char in text if char.isalpha()), _LETTERS_SAMPLED)
    scripts = Counter(unicodedata.name(letter, "LATIN").split()[0] for letter in letters)
    if scripts["HIRAGANA"] + scripts["KATAKANA"]:
        return "ja"
    most_common = scripts.most_common(1)
    return _LANGUAGE_OF_SCRIPT.get(most_common[0][0], "en") if most_common else "en"


def word_count(text: str) -> int:
    """Words of a text; in scripts without spaces every two or four characters count as one."""
    return len(_UNIT.findall(text))


def _lines(text: str) -> Iterator[Span]:
    """Spans of lines, long lines cut at white space."""
    for line in re.finditer(r"[^\n]+", text):
        start = line.start()
        while line.end() - start > _SEGMENT_LIMIT:
            cut = text.rfind(" ", start + 1, start + _SEGMENT_LIMIT)
            cut = cut if cut > start else start + _SEGMENT_LIMIT
            yield start, cut
            start = cut
        yield start, line.end()


_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer."""

_UNIT = re.compile(rf"[{_IDEOGRAPHS}]{{1,2}}|[{_UNSPACED}]{{1,4}}|[^\s{_IDEOGRAPHS}{_UNSPACED}]{{1,30}}")


def word_spans(text: str) -> Iterator[Span]:
    """Words as code-point spans; in scripts without spaces every two or four characters are one."""
    return (unit.span() for unit in _UNIT.finditer(text))


def _windows(pieces: Sequence[Span], size: int) -> list[Span]:
    """Runs of `size` pieces; up to two pieces stay one strip whatever the size."""
    if len(pieces) <= 2:
        size = 2
    return [
        (pieces[first][0], pieces[min(first + size, len(pieces)) - 1][1])
        for first in range(0, len(pieces), size)
    ]


def _fixed_windows(text: str, words: int) -> list[Span]:
    units = [word.span() for word in re.finditer(r"\S+", text)]
    if not units:
        return []
    starts = list(range(0, len(units), words))
    if len(starts) > 1 and len(units) - starts[-1] < _FIXED_TAIL_WORDS:
        starts.pop()
    stops = [*starts[1:], len(units)]
    return [(units[a][0], units[b - 1][1]) for a, b in zip(starts, stops, strict=True)]


def _excerption_pieces(text: str) -> list[Span]:
    """The released code's pieces: split after `?` and `. `, short ones joined, repeats dropped."""
    pieces: list[Span] = []
    seen: set[str] = set()
    for match in re.finditer(r".+?(?:\?|\. |\Z)", text, re.DOTALL):
        start, end = _trimmed(text, match.span())
        if start == end or text[start:end] in seen:
            continue
        seen.add(text[start:end])
        if pieces and len(text[start:end].split()) <= _EXCERPTION_SHORT_WORDS:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.append((start, end))
    return pieces


def _cut_long(text: str, span: Span, max_words: int) -> Iterator[Span]:
    if word_count(text[span[0] : span[1]]) <= max_words:
        yield span
        return
    units = [(span[0] + start, span[0] + end) for start, end in word_spans(text[span[0] : span[1]])]
    for first in range(0, len(units), max_words):
        yield units[first][0], units[min(first + max_words, len(units)) - 1][1]


def _trimmed(text: str, span: Span) -> Span:
    piece = text[span[0] : span[1]]
    start = span[0] + len(piece) - len(piece.lstrip())
    return (start, max(start, span[0] + len(piece.rstrip())))


def _score(scored: ScoredStrip) -> float:
    return float("-inf") if scored.score is None else scored.score
