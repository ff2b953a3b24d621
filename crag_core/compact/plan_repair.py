"""The repair of a plan that leaves out part of its question; it costs no completion."""

import re
from collections.abc import Sequence

from crag_core.compact.answer_words import content, relations
from crag_core.compact.references import described
from crag_core.compact.types import SubQuestion

COMPARES = re.compile(
    r"\b(earlier|later|older|younger|elder|first|last|more|less|fewer|most|least|longer|shorter|larger|"
    r"bigger|smaller|higher|lower|taller|same|both|common|differ\w*|compar\w*|between|closer|greater|"
    r"better|before|after|or|share)\b",
    re.IGNORECASE,
)
_MIN_PHRASE_WORDS = 3


def with_missing_part(sub_questions: Sequence[SubQuestion], question: str) -> list[SubQuestion]:
    """The plan, with the question itself as its last step where the plan stops short of it.

    What a sub-question asks after is replaced by a reference to its answer: of "Where was the author of
    Dracula born?" a plan that only asks "Who is the author of Dracula?" gets "Where was #1 born?". A
    plan none of whose phrases stands in the question is left as it is.
    """
    planned = " ".join(sub_question.text for sub_question in sub_questions)
    missing = content(COMPARES.sub(" ", question)) - content(planned)
    known = relations(planned)
    if all(relations(word) & known for word in missing):
        return [*sub_questions]
    text, references = question, []
    for place, sub_question in enumerate(sub_questions):
        phrase = described(sub_question.text)
        if len(phrase.split()) < _MIN_PHRASE_WORDS or phrase == sub_question.text:
            continue
        text, replaced = re.subn(re.escape(phrase), f"#{place + 1}", text, flags=re.IGNORECASE)
        references += [place] if replaced else []
    return [*sub_questions, *([SubQuestion(text, tuple(references))] if references else [])]
