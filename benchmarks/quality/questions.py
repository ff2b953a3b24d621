"""One question of an evaluation set, whatever file it came from, and the sets of them."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets import find_file, rows_of
from crag_core.types import Choice, Passage, Task

_NAMED_DUPLICATES = 3


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question with its gold and the passages that its set brings.

    `answers` are gold aliases: of a choice the right option's text, of a claim `true` or `false`; empty
    where there is no gold. `gold_label` is the right option's label. `documents` is the internal
    knowledge of the set, `pages` what the set's own web search found.
    """

    id: str
    text: str
    task: Task
    answers: tuple[str, ...]
    kind: str
    choices: tuple[Choice, ...] = ()
    gold_label: str | None = None
    documents: tuple[Passage, ...] | None = None
    pages: tuple[Passage, ...] | None = None

    @property
    def has_gold(self) -> bool:
        """Whether an answer can be judged."""
        return bool(self.answers)


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of one file, each id once; `sha256` is the file's."""

    name: str
    file: Path
    sha256: str
    questions: tuple[EvalQuestion, ...]

    def first(self, limit: int | None) -> "QuestionSet":
        """The set with its first questions only."""
        return replace(self, questions=self.questions[:limit])


Parse = Callable[[Mapping[str, Any], int], EvalQuestion]


def read_question_set(data: Path, name: str, files: Sequence[str], parse: Parse) -> QuestionSet:
    """The set in a folder, by its usual file names, or in the file that `data` is.

    Raises FileNotFoundError, and ValueError that names the row which is no question, or ids that
    come twice.
    """
    path = data if data.is_file() else find_file(data, files)
    questions: list[EvalQuestion] = []
    for number, row in enumerate(rows_of(path), start=1):
        try:
            questions.append(parse(row, number))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"row {number} of {path} is no question of {name}: {error!r}") from error
    if not questions:
        raise ValueError(f"{path} holds no questions")
    _refuse_duplicates(path, [question.id for question in questions])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return QuestionSet(name, path, digest, tuple(questions))


def _refuse_duplicates(path: Path, ids: Sequence[str]) -> None:
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        named = ", ".join(twice[:_NAMED_DUPLICATES])
        raise ValueError(
            f"{path} has {len(twice)} ids more than once, such as {named}: results are aligned by id, "
            "so give every question one of its own"
        )
