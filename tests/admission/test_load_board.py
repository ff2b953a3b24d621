import asyncio

import pytest

from crag_core.types import Stage
from deployments.admission import load_board
from deployments.admission.gate import Gate
from deployments.admission.load import Load, Others
from deployments.admission.load_board import LoadBoard
from deployments.admission.sharing import BoardLost, share
from deployments.settings import AdmissionSettings
from tests.fakes import FakeAdmissionObserver


def load(requests: int) -> Load:
    held = Load()
    for _ in range(requests):
        held.add({Stage.EVALUATE: 0.3})
    return held


async def test_each_hears_of_all_others_and_not_of_itself() -> None:
    board = LoadBoard()
    assert await board.exchange("a", load(3)) == Others()
    heard = await board.exchange("b", load(5))
    assert (heard.ingresses, heard.load.requests) == (1, 3)
    assert heard.load.demand == {Stage.EVALUATE: pytest.approx(0.9)}
    await board.exchange("c", load(1))
    assert (await board.exchange("a", load(0))).load.requests == 6


async def test_an_ingress_that_fell_silent_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    board = LoadBoard()
    await board.exchange("a", load(3))
    monkeypatch.setattr(load_board, "_SILENT_AFTER_S", -1.0)
    assert (await board.exchange("b", load(0))).ingresses == 0


def test_an_idle_load_holds_nothing_that_rounding_left() -> None:
    held = load(7)
    for _ in range(7):
        held.remove({Stage.EVALUATE: 0.3})
    assert held == Load()


async def test_sharing_goes_on_while_the_board_is_lost() -> None:
    heard = asyncio.Event()

    class Flaky:
        calls = 0

        async def exchange(self, load: Load) -> Others:
            self.calls += 1
            if self.calls == 1:
                raise BoardLost("it is starting")
            heard.set()
            return Others(4, Load())

    gate = Gate(AdmissionSettings(), FakeAdmissionObserver())
    sharing = asyncio.create_task(share(gate, Flaky()))
    try:
        async with asyncio.timeout(10):
            await heard.wait()
            await asyncio.sleep(0)
        assert gate.ingresses == 5
    finally:
        sharing.cancel()
