import asyncio
from dataclasses import dataclass, field

from crag_core.context import RequestContext
from crag_core.errors import StageUnavailable
from crag_core.types import Stage
from deployments import readiness
from deployments.readiness import Canary


@dataclass
class Probe:
    """Fails the first so many times."""

    failures: int
    asked: int = field(default=0)

    async def __call__(self, ctx: RequestContext) -> None:
        self.asked += 1
        if self.asked <= self.failures:
            raise StageUnavailable("it has no live replica")


async def test_a_stage_is_ready_once_it_has_answered_and_stays_so(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(readiness, "_RETRY_S", 0.01)
    quick, slow = Probe(0), Probe(2)
    canary = Canary({Stage.RETRIEVE: quick, Stage.GENERATE: slow})
    assert {state.state for state in canary.stages().values()} == {"starting"}
    await asyncio.wait_for(canary.run(), 5)
    assert all(state.ready for state in canary.stages().values())
    assert (quick.asked, slow.asked) == (1, 3)


async def test_a_stage_that_fails_says_why_and_holds_no_other_back() -> None:
    canary = Canary({Stage.RETRIEVE: Probe(0), Stage.SEARCH: Probe(1_000_000)})
    running = asyncio.ensure_future(canary.run())
    await asyncio.sleep(0.05)
    running.cancel()
    stages = canary.stages()
    assert stages["retrieve"].ready
    assert not stages["search"].ready
    assert stages["search"].state == "stage_unavailable: it has no live replica"
