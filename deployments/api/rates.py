"""Rates by key, before anything of a request is read."""

from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.admission.key_rates import KeyRates


class HeedRate:
    """ASGI middleware that refuses what a key, or an address without one, sends beyond its rate."""

    def __init__(self, app: ASGIApp, rates: KeyRates) -> None:
        """`rates` are asked for every request with a body."""
        self._app = app
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or raise Overloaded."""
        if scope["type"] == "http" and scope["method"] == "POST":
            key = scope["state"].get("api_key")
            if key is not None:
                self._rates.take(f"the key {key.id}", key.requests_per_minute)
            elif scope.get("client"):
                self._rates.take(f"the address {scope['client'][0]}")
        await self._app(scope, receive, send)
