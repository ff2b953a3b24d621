"""The actor at which the ingresses of an application tell each other what they have let in."""

import time
from dataclasses import dataclass

from deployments.admission.load import Load, Others

_SILENT_AFTER_S = 3.0
"""An ingress not heard of for so long has gone, and what it had let in with it."""


@dataclass(frozen=True, slots=True)
class _Note:
    load: Load
    at_s: float


class LoadBoard:
    """The latest load of each ingress; nothing is asked of it while a request waits."""

    def __init__(self) -> None:
        """An empty board."""
        self._notes: dict[str, _Note] = {}

    async def adopt(self) -> None:
        """There is nothing to take over."""

    async def ping(self) -> None:
        """Answers, while it can."""

    async def exchange(self, name: str, load: Load) -> Others:
        """Leave an ingress's load, and take that of all the others."""
        now_s = time.monotonic()
        self._notes[name] = _Note(load, now_s)
        for other, note in list(self._notes.items()):
            if now_s - note.at_s > _SILENT_AFTER_S:
                del self._notes[other]
        loads = [note.load for other, note in self._notes.items() if other != name]
        return Others(len(loads), Load.total(loads))
