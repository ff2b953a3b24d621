"""Made-up documents and questions: English words at the lengths of real passages, seeded.

A passage of the biographies that CRAG was measured on has 108 words, 155 tokens, and gives two strips
of 53 words: so sentences have 18 words here, and a document six of them.
"""

import random

_SENTENCE_WORDS = (10, 26)
_MEAN_SENTENCE_WORDS = 18
_TOKENS_PER_WORD = 1.42


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WORDS = _words(
    "the of and in a to was is for as on with by he that it his at from were an are which be this had "
    "first one their also has but not its two they new who after been her she about city when years "
    "war school world state during during team national university time other between most became "
    "album season film under three early known county district member series part including since "
    "station later united century government music family house party population station church "
    "railway club born american british german french career history public company service local "
    "north south east west river island village league election president minister army general "
    "politician naturalist explorer officer painter composer engineer physicist novelist architect "
    "borough parliament expedition laboratory manuscript collection symphony bridge harbour province "
    "settlement constitution archbishop encyclopedia correspondence independence administration"
)
_FIRST = _words(
    "Henry Anna George Clara Edwin Ruth Samuel Edith Arthur Ida Walter Nora Frank Ella Hugo Maud Oscar "
    "Irene Felix Alma Victor Grace Leon Stella Conrad Agnes Martin Helen Julius Vera"
)
_LAST = _words(
    "Feilden Marsh Holloway Thornton Ashby Whitlock Pemberton Langley Sutcliffe Draper Winslow Calder "
    "Hargrove Elmsley Norcott Tremaine Lockwood Barstow Fenwick Aldous Kersey Ravenhill Stroud Overton "
    "Penrose Wetherby Garland Hollis Ingram Yardley"
)
_ASKED = (
    "What is {}'s occupation?", "Where was {} born?", "When did {} die?", "Who was the father of {}?",
    "Which expedition did {} join?", "What did {} write?", "Where did {} go to school?",
    "Which borough did {} represent?",
)  # fmt: skip


def biography(random_: random.Random) -> str:
    """A document of 3 to 9 sentences, 108 words in the mean."""
    return " ".join(_sentence(random_) for _ in range(random_.randint(3, 9)))


def passage(random_: random.Random, tokens: int) -> str:
    """A document of about so many tokens."""
    words = max(1, round(tokens / _TOKENS_PER_WORD))
    sentences = []
    while words > 0:
        length = min(words, _MEAN_SENTENCE_WORDS)
        sentences.append(_sentence(random_, length))
        words -= length
    return " ".join(sentences)


def question(random_: random.Random) -> str:
    """A question about somebody who does not exist; some 10^8 different ones."""
    middle = f"{random_.choice(_FIRST)} {random_.choice(_LAST)}"
    return random_.choice(_ASKED).format(f"{random_.choice(_FIRST)} {middle}-{random_.choice(_LAST)}")


def _sentence(random_: random.Random, length: int | None = None) -> str:
    words = random_.choices(_WORDS, k=length or random_.randint(*_SENTENCE_WORDS))
    return " ".join(words).capitalize() + "."
