"""One request to a MediaWiki's Action API: the connection, and what its answer says."""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol
from urllib.parse import urlencode, urljoin, urlsplit

import aiohttp
from pydantic import SecretStr, ValidationError

from crag_core.errors import SettingsError
from deployments.backends.wikipedia.budget import Outcome
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer, error_code
from deployments.backends.wikipedia.retry import outcome_of_code, outcome_of_status, retry_after_s
from deployments.settings import MediaWikiSettings

_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 4.0
_KEEP_ALIVE_S = 30.0
_DNS_CACHE_S = 300
_LONGEST_QUERY_STRING = 6_000
"""Longer parameters travel in a POST's body: servers and caches in front cut long addresses."""

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_JSON = "application/json"


class AttemptFailed(Exception):
    """One request failed: how, why in one sentence, and how long the wiki asks to wait."""

    def __init__(self, outcome: Outcome, message: str, retry_after_s: float = 0.0) -> None:
        wish = f" and asks to wait {retry_after_s:g} s" if retry_after_s else ""
        super().__init__(message + wish)
        self.outcome = outcome
        self.message = message + wish
        self.retry_after_s = retry_after_s


class Connection(Protocol):
    """Sends parameters to a wiki once, and gives the JSON of its answer; raises AttemptFailed."""

    async def send(self, parameters: Mapping[str, str]) -> tuple[bytes, QueryAnswer]: ...

    async def close(self) -> None: ...


class WikiSession:
    """A Connection over HTTP; connections and cookies are kept until it is closed."""

    def __init__(self, settings: MediaWikiSettings, token: SecretStr | None = None) -> None:
        """`token` is the operator's OAuth token; it travels to the wiki and nowhere else.

        Raises SettingsError where it would travel in the open.
        """
        scheme = urlsplit(settings.api_url).scheme
        if token is not None and scheme != "https" and settings.host not in _LOOPBACK:
            raise SettingsError(
                f"a token for {settings.host} would travel in the open: set api_url to its https address"
            )
        self._settings = settings
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def send(self, parameters: Mapping[str, str]) -> tuple[bytes, QueryAnswer]:
        """One request; the body has at most `max_response_bytes` once it is unpacked."""
        host = self._settings.host
        try:
            async with self._request(parameters) as response:
                self._refuse_other_than_json(response)
                body = await self._body(response)
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
            message = f"{host} broke off or could not be reached ({type(error).__name__})"
            raise AttemptFailed(Outcome.UNAVAILABLE, message) from error
        except aiohttp.ClientError as error:
            message = f"{host} could not be asked ({type(error).__name__})"
            raise AttemptFailed(Outcome.REFUSED, message) from error
        return body, self._parsed(response, body)

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _request(self, parameters: Mapping[str, str]) -> "aiohttp.client._RequestContextManager":
        session, url = self._opened(), self._settings.api_url
        if _is_long(parameters):
            return session.post(url, data=parameters, allow_redirects=False)
        return session.get(url, params=parameters, allow_redirects=False)

    def _refuse_other_than_json(self, response: aiohttp.ClientResponse) -> None:
        host, status = self._settings.host, response.status
        outcome = outcome_of_status(status)
        if 300 <= status < 400:
            message = (
                f"{host} redirects to {_target_host(response)}, which is not followed: "
                "set api_url to the final address"
            )
            raise AttemptFailed(outcome, message)
        if outcome is Outcome.BLOCKED:
            message = (
                f"{host} answered HTTP {status}: check api_url, and that contact names the operator"
            )
            raise AttemptFailed(outcome, message)
        if outcome is not Outcome.OK:
            wait_s = _wait_asked_for(response)
            raise AttemptFailed(outcome, f"{host} answered HTTP {status}", wait_s)
        if response.content_type != _JSON:
            message = f"{host} answered something other than JSON"
            raise AttemptFailed(Outcome.UNAVAILABLE, message)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._settings.max_response_bytes
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > limit:
                message = f"{self._settings.host} answered more than {limit} bytes"
                raise AttemptFailed(Outcome.REFUSED, message)
        return bytes(body)

    def _parsed(self, response: aiohttp.ClientResponse, body: bytes) -> QueryAnswer:
        host = self._settings.host
        try:
            answer = QueryAnswer.model_validate_json(body)
        except ValidationError as error:
            message = f"{host} answered JSON that cannot be read"
            raise AttemptFailed(Outcome.UNAVAILABLE, message) from error
        code = error_code(answer, response.headers.get("MediaWiki-API-Error"))
        if code is None:
            return answer
        message = f"{host} answered with the API error {code}"
        raise AttemptFailed(outcome_of_code(code), message, _wait_asked_for(response))

    def _opened(self) -> aiohttp.ClientSession:
        """The session, opened on first use, because it belongs to the loop that is running then."""
        if self._session is None:
            headers = {"User-Agent": user_agent(self._settings.contact), "Accept-Encoding": "gzip"}
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
            self._session = aiohttp.ClientSession(
                # Wikimedia wants its cookies back, above all from clients with a token
                cookie_jar=aiohttp.CookieJar(),
                connector=aiohttp.TCPConnector(
                    ttl_dns_cache=_DNS_CACHE_S, keepalive_timeout=_KEEP_ALIVE_S
                ),
                headers=headers,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=_READ_TIMEOUT_S
                ),
            )
        return self._session


def _is_long(parameters: Mapping[str, str]) -> bool:
    most = sum(3 * len(value.encode(errors="replace")) for value in parameters.values())
    return most > _LONGEST_QUERY_STRING // 2 and len(urlencode(parameters)) > _LONGEST_QUERY_STRING


def user_agent(contact: str | None) -> str:
    """The User-Agent that Wikimedia's policy asks for: who runs this, and how to reach them."""
    try:
        release = version("crag-serve")
    except PackageNotFoundError:  # run from a checkout
        release = "dev"
    operator = f"({contact}) " if contact else ""
    return f"crag-serve/{release} {operator}aiohttp/{aiohttp.__version__}"


def _wait_asked_for(response: aiohttp.ClientResponse) -> float:
    return retry_after_s(response.headers.get("Retry-After", ""), datetime.now(UTC))


def _target_host(response: aiohttp.ClientResponse) -> str:
    try:
        target = urlsplit(urljoin(str(response.url), response.headers.get("Location", "")))
    except ValueError:
        return "an address that cannot be read"
    return target.hostname or "an address without a host"
