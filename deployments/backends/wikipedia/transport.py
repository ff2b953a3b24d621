"""What stands between the search strategies and the wire."""

from collections.abc import Mapping
from typing import Protocol

from deployments.backends.wikipedia.mediawiki_api import QueryAnswer


class QueryTransport(Protocol):
    """Sends one request to the Action API of one wiki."""

    @property
    def host(self) -> str:
        """The wiki's host, on which the addresses of its pages must lie."""
        ...

    async def query(self, parameters: Mapping[str, str], *, timeout_s: float) -> QueryAnswer:
        """The answer to these parameters, at the latest after `timeout_s`; raises SearchFailed."""
        ...
