"""What a training may be asked for; light, so that a command line can offer it."""

from enum import StrEnum


class PopqaLabels(StrEnum):
    """What makes a passage relevant to a PopQA question.

    `answer`: it names the subject, or is its page, and holds the answer. `title`: it is the subject's
    page, which is how the authors of CRAG labelled; passages without a title are left out.
    """

    ANSWER = "answer"
    TITLE = "title"


class Precision(StrEnum):
    """What a training computes its products in; weights, their updates and losses stay in float32."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class T5Shape(StrEnum):
    """The published sizes of T5, and one for trying things out."""

    TINY = "tiny"
    SMALL = "small"
    BASE = "base"
    LARGE = "large"

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Width, inner width, layers, heads."""
        return {
            T5Shape.TINY: (128, 512, 2, 4),
            T5Shape.SMALL: (512, 2048, 6, 8),
            T5Shape.BASE: (768, 3072, 12, 12),
            T5Shape.LARGE: (1024, 4096, 24, 16),
        }[self]


class T5Head(StrEnum):
    """What a T5 gives: one score of its input, or a text."""

    SCORE = "score"
    TEXT = "text"
