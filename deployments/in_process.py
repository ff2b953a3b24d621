"""The application in this process: the wiring and the replicas of Ray Serve's, without Ray Serve.

For evaluation and notebooks on one machine: nothing restarts, and nothing is shared with others.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from ray.serve.schema import ServeDeploySchema

from deployments.app import Leaves, wired
from deployments.commands.terminal import output_kept_clean
from deployments.records.store import RecordStore
from deployments.settings import AppSettings, MediaWikiSettings, RecordSettings


@dataclass(frozen=True, slots=True)
class LocalApplication:
    """The HTTP API, ready to be asked without a socket, and handles of the replicas by class name."""

    api: FastAPI
    handles: "dict[str, LocalHandle]"
    settings: AppSettings


@asynccontextmanager
async def opened(config: ServeDeploySchema, settings: AppSettings) -> AsyncIterator[LocalApplication]:
    """The application of a config with these settings; models are loaded here, and freed at the end.

    The config's environment becomes this process's. Raises SettingsError as the replicas do.
    """
    for name, value in config.applications[0].runtime_env.get("env_vars", {}).items():
        os.environ.setdefault(name, value)
    hosting = InProcess()
    with output_kept_clean():  # engines print where a command's JSON goes
        ingress = wired(without_access(settings), Leaves(), hosting)
        await hosting.started()
        try:
            yield LocalApplication(ingress.replica.api(), hosting.handles, settings)
        finally:
            hosting.handles["Generator"].replica.shutdown()


def without_access(settings: AppSettings) -> AppSettings:
    """The settings without API keys: nothing listens, so nobody has to be kept out."""
    access = settings.api.access.model_copy(update={"required": False})
    return settings.model_copy(update={"api": settings.api.model_copy(update={"access": access})})


@dataclass
class InProcess:
    """A `Hosting`: every class is made here, and its handle calls it directly."""

    handles: "dict[str, LocalHandle]" = field(default_factory=dict)
    _starting: list[Awaitable[None]] = field(default_factory=list)

    def bound(self, replica: type, *arguments: Any) -> "LocalHandle":
        """The replica's handle; one that starts asynchronously has to be waited for."""
        made: Any = object.__new__(replica)
        starting = replica.__init__(made, *arguments)  # type: ignore[misc]  # as Serve makes it
        if starting is not None:
            self._starting.append(starting)
        self.handles[replica.__name__] = LocalHandle(made)
        return self.handles[replica.__name__]

    def search_budget(self, settings: MediaWikiSettings) -> None:
        """None: one searcher has nobody to share with."""

    def load_board(self) -> None:
        """None: one ingress has nobody to tell."""

    def records(self, settings: RecordSettings) -> RecordStore:
        """A store of its own."""
        return RecordStore(settings)

    async def started(self) -> None:
        """Every replica, in the order of the wiring."""
        for starting in self._starting:
            await starting


@dataclass(frozen=True)
class LocalHandle:
    """What the clients need of a deployment's handle, over a replica in this process."""

    replica: Any

    def __getattr__(self, name: str) -> "LocalMethod":
        return LocalMethod(getattr(self.replica, name))

    def options(self, *, method_name: str, **_: Any) -> "LocalMethod":
        """One of its methods; routing options mean nothing here."""
        return LocalMethod(getattr(self.replica, method_name))


@dataclass(frozen=True)
class LocalMethod:
    """One method of a replica, called as a handle's is."""

    method: Any

    def options(self, **_: Any) -> "LocalMethod":
        """Itself: there is nothing to choose."""
        return self

    def remote(self, request: object) -> Any:
        """The reply as a task, or as a stream of pieces; both can be cancelled."""
        reply = self.method(request)
        if isinstance(reply, AsyncGenerator):
            return LocalStream(reply)
        return asyncio.ensure_future(reply)


@dataclass(frozen=True)
class LocalStream:
    """The pieces of a streamed reply."""

    pieces: AsyncGenerator[Any]

    def __aiter__(self) -> "LocalStream":
        return self

    async def __anext__(self) -> Any:
        return await anext(self.pieces)

    def cancel(self) -> None:
        """Close the replica's generator, which ends the work behind it."""
        closing = asyncio.ensure_future(self.pieces.aclose())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)


_CLOSING: set[asyncio.Future[None]] = set()
"""The event loop holds tasks only weakly."""
