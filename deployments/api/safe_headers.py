"""Headers that keep a browser from making more of a response than it is."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FOR_ALL = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_PAGES_MAY = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_ANYTHING_ELSE_MAY = "default-src 'none'; frame-ancestors 'none'"


class SafeHeaders:
    """ASGI middleware that adds the headers; a route that sets one itself knows better."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps the application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a `send` that adds the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _FOR_ALL.items():
                    headers.setdefault(name, value)
                is_page = headers.get("content-type", "").startswith("text/html")
                headers.setdefault(
                    "content-security-policy", _PAGES_MAY if is_page else _ANYTHING_ELSE_MAY
                )
            await send(message)

        await self._app(scope, receive, send_with_headers)
