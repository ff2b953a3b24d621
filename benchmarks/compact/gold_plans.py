"""Plans from the data sets' own annotations: 2Wiki's triples, MuSiQue's decompositions."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crag_core.compact.plan import plan_of
from crag_core.compact.types import Plan, SubQuestion

_ASKED_BY_RELATION = {
    "director": "Who is the director of {}?",
    "date of birth": "When was {} born?",
    "date of death": "When did {} die?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "place of burial": "Where was {} buried?",
    "country of citizenship": "What is the nationality of {}?",
    "country of origin": "Which country is {} from?",
    "country": "Which country is {} in?",
    "publication date": "When was {} released?",
    "educated at": "Where did {} study?",
    "award received": "Which award did {} receive?",
    "employer": "Where did {} work?",
    "inception": "When was {} founded?",
    "cause of death": "How did {} die?",
}
_PLACE = re.compile(r"#(\d+)")


def gold_plan(row: Mapping[str, Any]) -> Plan:
    """The plan that a question's annotation gives; without one, the question itself."""
    if row.get("evidences"):
        return _of_triples(row["evidences"])
    if row.get("decomposition"):
        return _of_steps([step["question"] for step in row["decomposition"]])
    return plan_of([SubQuestion(row["question"])])


def _of_triples(triples: Sequence[Sequence[str]]) -> Plan:
    found: dict[str, int] = {}
    sub_questions: list[SubQuestion] = []
    for position, (subject, relation, value) in enumerate(triples):
        parent = found.get(subject)
        name = subject if parent is None else f"#{parent + 1}"
        template = _ASKED_BY_RELATION.get(relation, f"Who or what is the {relation} of {{}}?")
        references = () if parent is None else (parent,)
        sub_questions.append(SubQuestion(template.format(name), references))
        found.setdefault(value, position)
    return plan_of(sub_questions)


def _of_steps(steps: Sequence[str]) -> Plan:
    sub_questions = []
    for position, step in enumerate(steps):
        subject, arrow, relation = step.partition(" >> ")
        text = f"What is the {relation.strip()} of {subject.strip()}?" if arrow else step
        places = (int(number) - 1 for number in _PLACE.findall(step))
        references = tuple(dict.fromkeys(place for place in places if 0 <= place < position))
        sub_questions.append(SubQuestion(text, references))
    return plan_of(sub_questions)
