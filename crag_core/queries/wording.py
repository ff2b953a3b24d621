"""The wording of questions: words without content, and the pieces that names are made of."""

import re
import unicodedata


def word_set(words: str) -> frozenset[str]:
    """Words that are written in one string, blanks between them."""
    return frozenset(words.split())


STOP_WORDS = word_set(
    "a an and are as at be been being but by can could did do does for from had has have he "
    "her his how i if in into is it its itself me my no nor not of on one ones or our shall "
    "she should so some such than that the their them then there these they this those to "
    "too two us was we were what when where whether which while who whom whose why will with "
    "would you your"
)
QUESTION_WORDS = word_set("what who whom whose which where when why how name")
AUXILIARIES = word_set(
    "is are was were did does do has have had can could will would should may might must been be"
)
FOREIGN_QUESTION_WORDS = word_set(
    "qui que quoi quel quelle quels quelles où quand comment combien pourquoi est-ce dans en "
    "de à wer wen wem was welche welcher welches welchem welchen wo wann wie warum woher "
    "wohin quién quiénes qué cuál cuáles dónde cuándo cómo por chi che cosa quale quali dove "
    "quando come perché quem qual quais onde o wie welke waar wanneer hoe waarom kto kogo co "
    "jaki jaka jakie gdzie kiedy кто что какой какая какое где когда как почему kim ne "
    "nerede hangi"
)

_BLANKS = re.compile(r"\s+")
_END = re.compile(r"(?:\s|[?\uff1f\u061f\u037e])+$")
_SENTENCE_STOP = re.compile(r"(?<=[^\W\d_]{3})[.!\u3002\uff01]+$")
_ABBREVIATION = re.compile(r"\b(?:inc|ltd|corp|bros)\.$", re.IGNORECASE)
_CONTRACTED = re.compile(r"^(what|who|where|when|how)['\u2019]s ", re.IGNORECASE)
_WRAPPING = " \t,;:\u00bf\u00a1"
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_SMALL = word_set("a an and as at by for from in of on or the to with de la le van von und et")
_WORD = re.compile(r"[^\W_]+(?:[-.'\u2019][^\W_]+)*")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_LETTERS = re.compile(r"[^\W_]+")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")

LONGEST_QUESTION = 4_000
"""Characters of a question that are looked at."""


def tidied(text: str) -> str:
    """A question in NFC on one line, without its question mark or full stop.

    >>> tidied(" Where is  Washington, D.C.? ")
    'Where is Washington, D.C.'
    >>> tidied("Alien is a film.")
    'Alien is a film'
    """
    plain = _BLANKS.sub(" ", unicodedata.normalize("NFC", text[:LONGEST_QUESTION])).strip(_WRAPPING)
    question = _CONTRACTED.sub(r"\1 is ", _END.sub("", plain))
    if question != plain or _ABBREVIATION.search(plain):
        return question
    return _SENTENCE_STOP.sub("", plain)


def without_article(name: str) -> str:
    """A name without a leading article.

    >>> without_article("the Eiffel Tower")
    'Eiffel Tower'
    """
    return _ARTICLE.sub("", name)


def title_case(name: str) -> str:
    """A name in lower case as a title would have it.

    >>> title_case("lord of the rings")
    'Lord of the Rings'
    """
    words = [word if word in _SMALL else word[:1].upper() + word[1:] for word in name.split()]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]]) if words else name


def folded(text: str) -> str:
    """A text for comparing: lower case, without accents and signs.

    >>> folded("Schrödinger’s cat")
    'schrodinger s cat'
    """
    if not text.isascii():
        marked = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in marked if not unicodedata.combining(char))
    return " ".join(_LETTERS.findall(text.casefold()))


def base_title(title: str) -> str:
    """A title without its qualifier.

    >>> base_title("Ghost (1990 film)")
    'Ghost'
    """
    return _QUALIFIER.sub("", title) or title


def content_words(text: str, longer_than: int = 0) -> list[str]:
    """The words of a text that carry content, in order, each once.

    >>> content_words("Which of these is the best conductor of heat?")
    ['best', 'conductor', 'heat']
    """
    words = (_POSSESSIVE.sub("", word) for word in _WORD.findall(text))
    kept = [word for word in words if word.casefold() not in STOP_WORDS and len(word) > longer_than]
    return list(dict.fromkeys(kept))
