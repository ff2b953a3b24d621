"""What replicas share through an actor: how to find it travels, a connection does not."""

import asyncio
from unittest.mock import Mock

import pytest
from ray import cloudpickle

from deployments.shared_actors import ActorLost, SharedActor


class Counter:
    """Stands for an actor's class."""


async def test_one_that_is_connecting_can_be_pickled() -> None:
    """Serve does so after a replica has begun, on a slow machine when it is connecting already."""
    actor = SharedActor("counter", Counter, 1, "two")
    actor._connecting = asyncio.ensure_future(asyncio.sleep(0))
    copy = cloudpickle.loads(cloudpickle.dumps(actor))
    assert (copy._name, copy._class, copy._arguments) == ("counter", Counter, (1, "two"))
    assert copy._connecting is None
    await actor._connecting


async def test_one_that_cannot_be_found_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    actor = SharedActor("counter", Counter)
    for error in (ValueError("no actor of this name"), TypeError("another signature")):
        monkeypatch.setattr(SharedActor, "_found_or_started", Mock(side_effect=error))
        for send in (actor.ask, actor.tell):
            with pytest.raises(ActorLost, match=str(error)):
                await send("count")
    monkeypatch.setattr(SharedActor, "_found_or_started", Mock(return_value=object()))
    with pytest.raises(ActorLost, match="of another release, which has no adopt"):
        await actor.ask("count")
    found = Mock(adopt=Mock(remote=Mock(side_effect=lambda: asyncio.sleep(0))))
    monkeypatch.setattr(SharedActor, "_found_or_started", Mock(return_value=found))
    await actor.tell("count", 7)
    found.count.remote.assert_called_once_with(7)
