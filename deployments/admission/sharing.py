"""What keeps an ingress's gate informed of the others, a few times a second."""

import asyncio
import logging
from typing import Protocol

from deployments.admission.gate import Gate
from deployments.admission.load import Load, Others

_EVERY_S = 0.25
_logger = logging.getLogger(__name__)


class BoardLost(Exception):
    """The board cannot be reached."""


class Board(Protocol):
    """Where ingresses exchange their loads; raises BoardLost."""

    async def exchange(self, load: Load) -> Others: ...


async def share(gate: Gate, board: Board) -> None:
    """Tell and hear, until cancelled; without the board the gate goes on by its own lights."""
    is_lost = False
    while True:
        try:
            gate.heard(await board.exchange(gate.load()))
            is_lost = False
        except BoardLost as error:
            gate.lost()
            if not is_lost:
                _logger.warning("the other ingresses are out of reach (%s)", error)
            is_lost = True
        await asyncio.sleep(_EVERY_S)
