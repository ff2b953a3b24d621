"""What Serve's controller knows of this application: where it listens, which replicas run."""

import asyncio
import ipaddress
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.context import _get_global_client
from ray.serve.exceptions import RayServeException

_logger = logging.getLogger(__name__)

_FRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """A deployment: how many replicas it should have, and which of them take requests."""

    target: int
    running: frozenset[str]

    @property
    def is_at_zero(self) -> bool:
        """Whether it has no replica by design."""
        return self.target == 0


class Fleet:
    """The deployments of the application of this replica, as the controller last saw them."""

    def __init__(self) -> None:
        """Asks nothing yet."""
        self._known: Mapping[str, DeploymentState] = {}
        self._asked: asyncio.Future[None] | None = None
        self._asked_s = 0.0

    async def deployments(self) -> Mapping[str, DeploymentState]:
        """Each deployment by name; what was known last, while the controller does not answer.

        All who ask within two seconds, or while it is being asked, share an answer.
        """
        asked = self._asked
        if asked is None or (asked.done() and time.monotonic() - self._asked_s > _FRESH_S):
            asked = self._asked = asyncio.ensure_future(self._ask())
            self._asked_s = time.monotonic()
        await asyncio.shield(asked)
        return self._known

    async def _ask(self) -> None:
        try:
            self._known = await asyncio.to_thread(_deployments)
        except (RayError, RayServeException) as error:
            _logger.warning("Serve's controller does not answer: %s", type(error).__name__)


def end_replica() -> None:
    """End the process of this replica at once, so that Serve starts another; elsewhere do nothing."""
    # an actor's process, and no other: what runs the application in one process must not be ended
    if not ray.is_initialized() or ray.get_runtime_context().get_actor_id() is None:
        return
    _logger.critical("this replica ends: it cannot go on")
    os._exit(1)


def listens_outside_loopback() -> bool:
    """Whether other machines may reach the HTTP proxies; when Serve does not say, they may."""
    if not ray.is_initialized():  # the application in one process, which listens nowhere
        return False
    controller = _get_global_client(raise_if_no_controller_running=False)
    return controller is None or not is_loopback(controller.http_config.host)


def is_loopback(host: str | None) -> bool:
    """Whether this address takes connections of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _deployments() -> Mapping[str, DeploymentState]:
    if not ray.is_initialized():  # Serve's client would start a cluster to look in
        return {}
    controller = _get_global_client()
    assert controller is not None, "it raises when there is none"
    application = serve.get_replica_context().app_name
    applications: Any = controller.get_serve_details()["applications"]
    details = applications.get(application, {}).get("deployments", {})  # it may just be deleted
    return {
        name: DeploymentState(
            target=deployment["target_num_replicas"],
            running=frozenset(
                replica["replica_id"]
                for replica in deployment["replicas"]
                if replica["state"] == "RUNNING"
            ),
        )
        for name, deployment in details.items()
    }
