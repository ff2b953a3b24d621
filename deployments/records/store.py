"""The records of the last answers, bounded in number and bytes; the oldest make room.

In a cluster it is an actor of its own, so that any ingress finds what another one kept.
"""

from collections import OrderedDict

from deployments.settings import RecordSettings


class RecordStore:
    """Keeps decision records by their answer's id."""

    def __init__(self, settings: RecordSettings) -> None:
        """Keeps nothing yet."""
        self._settings = settings
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    async def adopt(self, settings: RecordSettings) -> None:
        """The bounds of an application that has just started."""
        self._settings = settings
        self._make_room()

    async def keep(self, answer_id: str, record: bytes) -> None:
        """Keep a record; one that is larger than all may be is not kept."""
        if len(record) > self._settings.max_bytes or answer_id in self._kept:
            return
        self._kept[answer_id] = record
        self._bytes += len(record)
        self._make_room()

    async def find(self, answer_id: str) -> bytes | None:
        """The record, if it is still there."""
        return self._kept.get(answer_id)

    async def ping(self) -> None:
        """Answers, while it can."""

    def _make_room(self) -> None:
        while len(self._kept) > self._settings.max_answers or self._bytes > self._settings.max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)
