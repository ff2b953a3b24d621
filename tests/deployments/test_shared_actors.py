"""What replicas share through an actor: how to find it travels, a connection does not."""

import asyncio

from ray import cloudpickle

from deployments.shared_actors import SharedActor


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
