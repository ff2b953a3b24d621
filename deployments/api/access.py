"""Who may ask: the key of a request, and what it opens."""

from dataclasses import dataclass, field
from typing import Protocol

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from crag_core.errors import SettingsError
from deployments.api import routes
from deployments.api.errors import forbidden, unauthorized
from deployments.api.keys import ApiKey, Keys, Permission
from deployments.settings import AccessSettings


class KeyFinder(Protocol):
    """Knows keys by their secrets."""

    def find(self, secret: str) -> ApiKey | None: ...


@dataclass(frozen=True, slots=True)
class Access:
    """The keys, and whether a request needs one. Where none is needed, one that is known is noted."""

    keys: KeyFinder = field(default_factory=Keys)
    required: bool = False


def access_for(settings: AccessSettings, keys: Keys, *, is_outside: bool) -> Access:
    """The access that the settings give; `is_outside`: other machines can reach the server.

    Raises SettingsError when a key is needed and there is none.
    """
    required = is_outside if settings.required is None else settings.required
    if required and not len(keys):
        raise SettingsError(
            "requests need an API key here, and there is none: make one with `crag key add`, and name "
            "its file in `api.access.keys_file` or put its line into CRAG_API_KEYS; where something in "
            "front of the server checks who asks, set `api.access.required: false`"
        )
    return Access(keys, required)


class CheckKey:
    """ASGI middleware that refuses a request without the key that its route needs."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        """Lets the routes that tell nothing be read by everybody."""
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; before its body is read, a request without a fitting key is refused."""
        if scope["type"] == "http" and scope["path"] not in routes.OPEN_ROUTES:
            key = self._access.keys.find(_bearer(Headers(scope=scope)))
            if self._access.required:
                _check(key, scope["path"])
            if key is not None:
                scope["state"]["api_key"] = key
                scope["state"]["observation"].key_id = key.id
        await self._app(scope, receive, send)


def key_of(request: Request) -> ApiKey | None:
    """The key that the request came with, if that is known."""
    key: ApiKey | None = getattr(request.state, "api_key", None)
    return key


def _check(key: ApiKey | None, path: str) -> None:
    if key is None:
        raise unauthorized()
    needed = Permission.OPERATE if path in routes.OPERATOR_ROUTES else Permission.ASK
    if needed not in key.permissions:
        raise forbidden(f"the key {key.id} lacks the permission `{needed}`, which this route needs")


def _bearer(headers: Headers) -> str:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
