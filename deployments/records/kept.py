"""The records of answers, for those who ask by an answer's id; and who keeps them."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from crag_core.errors import AnswerNotFound, SettingsError
from crag_core.types import Passage
from deployments.records.record import DecisionRecord

if TYPE_CHECKING:
    from deployments.api.observing import Observation


class Records(Protocol):
    """Where records lie; one that is out of reach finds nothing, and loses what it is given."""

    async def keep(self, answer_id: str, record: bytes) -> None: ...

    async def find(self, answer_id: str) -> bytes | None: ...


class KeptAnswers:
    """Answers of the past by their ids; keeps the API's Protocol `RecordedAnswers`."""

    def __init__(self, records: Records) -> None:
        """Looks into `records`."""
        self._records = records

    async def record(self, answer_id: str) -> bytes:
        """The decision record as JSON; raises AnswerNotFound."""
        found = await self._records.find(answer_id)
        if found is None:
            raise AnswerNotFound(
                f"answer {answer_id} is not recorded: it is too old, or `observability.records` was off"
            )
        return found

    async def pair(self, answer_id: str, document_id: str) -> tuple[str, Passage]:
        """The question and a document as they were scored; raises AnswerNotFound."""
        content = await self.record(answer_id)
        try:
            record = DecisionRecord.from_json(content)
        except SettingsError as error:  # the store outlives the application that kept it
            raise AnswerNotFound(
                f"the record of answer {answer_id} is of another release: send its question and passage"
            ) from error
        for scored_id, passage in _scored(record):
            if scored_id == document_id:
                return record.ask.question.text, passage
        raise AnswerNotFound(f"no document {document_id} was scored for answer {answer_id}")


def _scored(record: DecisionRecord) -> Iterable[tuple[str, Passage]]:
    """The documents that were scored, by their ids.

    Of all evaluations it is the one that the trace tells of, not always the first to have ended:
    strips and pages may be scored while the documents are.
    """
    documents = record.answer.trace.documents
    told = [(document.title, document.score, document.truncated) for document in documents]
    for call in record.calls.evaluated:
        titles = (passage.title for passage in call.passages)
        said = zip(titles, call.evaluation.scores, call.evaluation.truncated, strict=True)
        if list(said) == told:
            return zip((document.document_id for document in documents), call.passages, strict=True)
    return ()


class RecordKeeper:
    """Keeps the record of each answer that has one; keeps the API's Protocol `AnswerObserver`."""

    def __init__(self, records: Records) -> None:
        """Keeps them in `records`."""
        self._records = records
        self._keeping: set[asyncio.Task[None]] = set()  # the event loop holds tasks only weakly

    def answered(self, observation: "Observation") -> None:
        """Begin to keep it; the client does not wait for that."""
        if observation.answer is None or observation.answer.record is None:
            return
        kept = self._records.keep(observation.answer_id, observation.answer.record)
        task = asyncio.get_running_loop().create_task(kept)
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)
