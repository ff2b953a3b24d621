import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from crag_core.context import RequestContext
from crag_core.errors import StageUnavailable
from crag_core.types import Stage
from deployments import readiness
from deployments.readiness import Canary
from deployments.serve_state import DeploymentState, end_replica, is_loopback


@dataclass
class Probe:
    """Fails the first so many times."""

    failures: int = 0
    asked: int = 0

    async def __call__(self, ctx: RequestContext) -> None:
        self.asked += 1
        if self.asked <= self.failures:
            raise StageUnavailable("it has no live replica")


@dataclass
class FakeFleet:
    """Deployments that a test changes; counts how often it was looked at."""

    states: dict[str, DeploymentState] = field(default_factory=dict)
    looks: int = 0

    def run(self, name: str, *replicas: str) -> None:
        self.states[name] = DeploymentState(len(replicas), frozenset(replicas))

    async def deployments(self) -> Mapping[str, DeploymentState]:
        self.looks += 1
        return self.states


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_RETRY_S", "_LOOK_EVERY_S"):
        monkeypatch.setattr(readiness, pause, 0.001)


@asynccontextmanager
async def watching(canary: Canary) -> AsyncIterator[None]:
    """The canary, running meanwhile."""
    running = asyncio.ensure_future(canary.run())
    yield
    assert not running.done()
    running.cancel()
    await asyncio.wait({running}, timeout=5)
    assert running.cancelled()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  # what is waited for is no event of ours
            await asyncio.sleep(0.001)


async def looks(fleet: FakeFleet) -> None:
    """Wait until the fleet has been looked at some more times."""
    enough = fleet.looks + 10
    await until(lambda: fleet.looks > enough)


def is_ready(canary: Canary, stage: str = "retrieve") -> bool:
    return canary.stages()[stage].ready


async def test_a_stage_is_ready_once_it_has_answered_and_is_not_asked_again() -> None:
    quick, slow, fleet = Probe(), Probe(failures=2), FakeFleet()
    canary = Canary({Stage.RETRIEVE: quick, Stage.GENERATE: slow}, fleet)
    assert {state.state for state in canary.stages().values()} == {"starting"}
    async with watching(canary):
        await until(lambda: is_ready(canary, "generate"))
        await looks(fleet)
    assert all(state.ready for state in canary.stages().values())
    assert (quick.asked, slow.asked) == (1, 3)


async def test_a_stage_that_fails_says_why_and_holds_no_other_back() -> None:
    failing = Probe(failures=1_000_000)
    canary = Canary({Stage.RETRIEVE: Probe(), Stage.SEARCH: failing}, FakeFleet())
    async with watching(canary):
        await until(lambda: is_ready(canary) and failing.asked > 3)
    search = canary.stages()["search"]
    assert (search.state, search.ready) == ("stage_unavailable: it has no live replica", False)


async def test_a_stage_without_replicas_by_design_is_ready_and_not_woken() -> None:
    probe, fleet = Probe(), FakeFleet()
    fleet.run("Retriever")
    canary = Canary({Stage.RETRIEVE: probe}, fleet)
    async with watching(canary):
        await until(lambda: is_ready(canary))
        await looks(fleet)
    assert canary.stages()["retrieve"].state.startswith("at zero") and probe.asked == 0


async def test_a_stage_is_asked_again_when_its_replicas_change() -> None:
    probe, fleet = Probe(), FakeFleet()
    fleet.run("Retriever", "a", "b")
    canary = Canary({Stage.RETRIEVE: probe}, fleet)
    async with watching(canary):
        await until(lambda: is_ready(canary))
        for replicas, asked in [(("b", "c"), 2), ((), 2), (("c",), 3), (("c",), 3)]:
            fleet.run("Retriever", *replicas)
            await looks(fleet)
            assert probe.asked == asked and is_ready(canary)


async def test_a_stage_that_does_not_answer_after_a_change_is_not_ready_until_it_does() -> None:
    probe, fleet = Probe(), FakeFleet()
    fleet.run("Generator", "a")
    fleet.run("CragGraph", "g")
    canary = Canary({Stage.GENERATE: probe}, fleet)
    async with watching(canary):
        await until(lambda: is_ready(canary, "generate"))
        probe.failures = 1_000_000
        fleet.run("CragGraph", "h")
        await until(lambda: not is_ready(canary, "generate"))
        probe.failures = 0
        await until(lambda: is_ready(canary, "generate"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "crag.example", "", None)],
)
def test_what_is_loopback(host: str | None, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_what_is_no_replica_is_not_ended() -> None:
    end_replica()


async def test_a_stage_whose_replicas_are_again_those_that_answered_is_asked_again() -> None:
    probe, fleet = Probe(), FakeFleet()
    fleet.run("Retriever", "a")
    canary = Canary({Stage.RETRIEVE: probe}, fleet)
    async with watching(canary):
        await until(lambda: is_ready(canary))
        probe.failures = 1_000_000
        fleet.run("Retriever", "a", "b")
        await until(lambda: not is_ready(canary))
        probe.failures = 0
        fleet.run("Retriever", "a")
        await until(lambda: is_ready(canary))
