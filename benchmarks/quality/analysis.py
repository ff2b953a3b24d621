"""The scored rows of one set, by method, aligned by question: what tables and figures are made from."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmarks.quality.ledger import Key, Row
from benchmarks.quality.methods import Method
from benchmarks.quality.questions import EvalQuestion, QuestionSet
from benchmarks.quality.scoring import HEADLINE, METRICS, Scored, score_row
from benchmarks.quality.statistics import Difference, Estimate, estimate, paired_difference
from crag_core.types import Action, Task

ACTIONS = (Action.CORRECT, Action.AMBIGUOUS, Action.INCORRECT)


@dataclass(frozen=True)
class SetResults:
    """One set's questions and, for each method, the row of every question in the set's order.

    A question that a method has no row for is left out of all methods, and counted in `unasked`.
    """

    questions: QuestionSet
    rows: Mapping[Method, Sequence[Scored]]
    unasked: int

    @property
    def task(self) -> Task:
        """What all questions of a set want."""
        return self.questions.questions[0].task

    @property
    def headline(self) -> str:
        """The metric that stands for the set."""
        return HEADLINE[self.task]

    @property
    def metrics(self) -> Sequence[str]:
        """All metrics of the set, the headline first."""
        return METRICS[self.task]

    @cached_property
    def judged(self) -> Mapping[Method, Sequence[Scored]]:
        """The rows of questions with gold."""
        return {method: [row for row in rows if row.metrics] for method, rows in self.rows.items()}

    @property
    def without_gold(self) -> int:
        """Questions that were asked and cannot be judged."""
        return sum(not question.has_gold for question in self.questions.questions)

    def values(self, method: Method, metric: str | None = None) -> list[float]:
        """One value per judged question, in the order of all methods."""
        return [row.metrics[metric or self.headline] for row in self.judged[method]]

    def estimate(self, method: Method, metric: str | None = None) -> Estimate:
        """A method's mean with its interval."""
        return estimate(self.values(method, metric))

    def difference(self, first: Method, second: Method) -> Difference:
        """What the first method has more than the second, by the headline."""
        return paired_difference(self.values(first), self.values(second))

    @property
    def triggering(self) -> Method | None:
        """The method whose actions are shown: the corrective one with the most sources."""
        return next((each for each in (Method.CRAG, Method.CRAG_NO_WEB) if each in self.rows), None)

    def actions(self) -> Mapping[str, str]:
        """The action by question, as the triggering method took it."""
        rows = self.rows[self.triggering] if self.triggering else ()
        return {row.id: row.action for row in rows if row.action is not None}

    def dominant_action(self, rows: Iterable[Scored]) -> str:
        """The action most often taken for the questions of these rows."""
        by_id = self.actions()
        counts = Counter(by_id[row.id] for row in rows if row.id in by_id)
        return counts.most_common(1)[0][0] if counts else "-"


def results_of(
    sets: Sequence[QuestionSet], rows: Mapping[Key, Row], methods: Sequence[Method]
) -> list[SetResults]:
    """The rows of a ledger, judged and aligned by id, set by set."""
    found: list[SetResults] = []
    for each in sets:
        known = [
            question
            for question in each.questions
            if all((each.name, method, question.id) in rows for method in methods)
        ]
        scored = {method: _scored(each.name, method, known, rows) for method in methods}
        found.append(SetResults(each, scored, len(each.questions) - len(known)))
    return found


def _scored(
    name: str, method: Method, questions: Sequence[EvalQuestion], rows: Mapping[Key, Row]
) -> list[Scored]:
    return [score_row(rows[name, method, question.id], question) for question in questions]
