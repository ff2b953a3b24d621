"""Workload W2: the token ids of whole CRAG questions, ten documents each and their strips."""

import random
from collections.abc import Sequence

LONGEST = 512

_DOCUMENTS = 10
_STRIPS = 21
PAIRS_PER_QUESTION = _DOCUMENTS + _STRIPS
END_ID = 1
FIRST_WORD_ID = 3


def w2_lengths(questions: int, seed: int = 0) -> list[int]:
    """Tokens of the pairs of so many questions: documents of about 155, strips of about 77.

    They follow the papers' Biography set: documents of 108 words, cut into strips of 53.
    """
    chosen = random.Random(seed)
    lengths = [
        length
        for _ in range(questions)
        for length in (
            *(round(chosen.gauss(155, 30)) for _ in range(_DOCUMENTS)),
            *(round(chosen.lognormvariate(4.25, 0.45)) for _ in range(_STRIPS)),
        )
    ]
    return [min(max(length, 16), LONGEST) for length in lengths]


def pairs_of(lengths: Sequence[int], vocabulary: int, seed: int = 0) -> list[list[int]]:
    """Token ids of pairs that long, any words, the end mark last."""
    chosen = random.Random(seed)
    return [
        [*(chosen.randrange(FIRST_WORD_ID, vocabulary) for _ in range(length - 1)), END_ID]
        for length in lengths
    ]
