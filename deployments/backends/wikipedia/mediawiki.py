"""The transport to a MediaWiki such as Wikipedia: requests to its Action API."""

import asyncio
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urljoin, urlsplit

import aiohttp
import stamina
from pydantic import ValidationError

from crag_core.errors import SearchFailed
from deployments.backends.wikipedia.mediawiki_api import QueryAnswer
from deployments.settings import MediaWikiSettings

_ATTEMPTS = 3
_JITTER_S = (0.05, 0.5)
_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 4.0

_TRANSIENT_STATUSES = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_TRANSIENT_CODE = re.compile(
    r"maxlag|ratelimited|readonly|cirrussearch-too-busy-error|internal_api_error_\w+"
)
_CODE = re.compile(r"[\w-]{1,80}")


class _TransientFailure(Exception):
    """A failure that another attempt may not meet, and how long to wait before it."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        wish = f" and asks to wait {retry_after_s:g} s" if retry_after_s else ""
        super().__init__(message + wish)
        self.retry_after_s = retry_after_s


class MediaWiki:
    """Asks a MediaWiki; one client per process, closed when the process ends."""

    def __init__(self, settings: MediaWikiSettings) -> None:
        self._settings = settings
        self._host = urlsplit(settings.api_url).hostname or settings.api_url
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._session: aiohttp.ClientSession | None = None
        self._not_before = 0.0

    @property
    def host(self) -> str:
        """The wiki's host."""
        return self._host

    async def query(self, parameters: Mapping[str, str], *, timeout_s: float) -> QueryAnswer:
        """The answer to one request.

        Takes at most `timeout_s` seconds, waits for a free slot and for retries included.
        Raises SearchFailed.
        """
        timeout_s = max(0.0, min(timeout_s, self._settings.timeout_s))
        give_up_at = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(give_up_at):
                return await self._fetch_with_retries(parameters, give_up_at)
        except TimeoutError as error:
            raise SearchFailed(f"{self._host} did not answer within {timeout_s:g} s") from error
        except _TransientFailure as error:
            raise SearchFailed(str(error)) from error

    async def close(self) -> None:
        """Close the connections; a later search opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _fetch_with_retries(self, parameters: Mapping[str, str], give_up_at: float) -> QueryAnswer:
        def wait_s(error: Exception) -> bool | float:
            if not isinstance(error, _TransientFailure):
                return False
            wait = error.retry_after_s + random.uniform(*_JITTER_S)
            remaining_s = give_up_at - asyncio.get_running_loop().time()
            return wait if wait < remaining_s else False

        async def fetch() -> QueryAnswer:  # without arguments, for stamina logs them
            return await self._fetch(parameters)

        retrying = stamina.AsyncRetryingCaller(attempts=_ATTEMPTS, timeout=None)
        return await retrying(wait_s, fetch)

    async def _fetch(self, parameters: Mapping[str, str]) -> QueryAnswer:
        pause_s = self._not_before - asyncio.get_running_loop().time()
        if pause_s > 0:  # the host asked for a pause: it holds for every request, not for one
            raise _TransientFailure(f"{self._host} has asked for a pause", pause_s)
        try:
            async with (
                self._slots,
                self._opened().get(
                    self._settings.api_url, params=parameters, allow_redirects=False
                ) as response,
            ):
                self._refuse_other_than_json(response)
                body = await self._body(response)
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
            raise _TransientFailure(
                f"{self._host} broke off or could not be reached ({type(error).__name__})"
            ) from error
        except aiohttp.ClientError as error:
            raise SearchFailed(f"{self._host} could not be asked ({type(error).__name__})") from error
        return self._parsed(response, body)

    def _refuse_other_than_json(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status in _TRANSIENT_STATUSES:
            wait_s = _wait_asked_for(response)
            self._not_before = asyncio.get_running_loop().time() + wait_s
            raise _TransientFailure(f"{self._host} answered HTTP {status}", wait_s)
        if 300 <= status < 400:
            raise SearchFailed(
                f"{self._host} redirects to {_target_host(response)}, which is not followed: "
                "set api_url to the final address"
            )
        if status != HTTPStatus.OK:
            raise SearchFailed(
                f"{self._host} answered HTTP {status}: "
                "check api_url, and that contact names the operator"
            )
        if response.content_type != "application/json":
            raise _TransientFailure(f"{self._host} answered something other than JSON")

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._settings.max_response_bytes:
                raise SearchFailed(
                    f"{self._host} answered more than {self._settings.max_response_bytes} bytes"
                )
        return bytes(body)

    def _parsed(self, response: aiohttp.ClientResponse, body: bytes) -> QueryAnswer:
        try:
            answer = QueryAnswer.model_validate_json(body)
        except ValidationError as error:
            raise _TransientFailure(f"{self._host} answered JSON that cannot be read") from error
        header = response.headers.get("MediaWiki-API-Error")
        code = answer.errors[0].code if answer.errors else header
        if code is None:
            return answer
        name = code if _CODE.fullmatch(code) else "unknown"
        message = f"{self._host} answered with the API error {name}"
        if _TRANSIENT_CODE.fullmatch(code):
            raise _TransientFailure(message, _wait_asked_for(response))
        raise SearchFailed(message)

    def _opened(self) -> aiohttp.ClientSession:
        """The session, opened on first use, because it belongs to the loop that is running then."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ttl_dns_cache=300),
                headers={
                    "User-Agent": user_agent(self._settings.contact),
                    "Accept-Encoding": "gzip",
                },
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=_READ_TIMEOUT_S
                ),
            )
        return self._session


def user_agent(contact: str | None) -> str:
    """The User-Agent that Wikimedia's policy asks for: who runs this, and how to reach them."""
    try:
        release = version("crag-serve")
    except PackageNotFoundError:  # run from a checkout
        release = "dev"
    operator = f"({contact}) " if contact else ""
    return f"crag-serve/{release} {operator}aiohttp/{aiohttp.__version__}"


def retry_after_s(value: str, now: datetime) -> float:
    """Seconds that a Retry-After header asks to wait: a number, or a date; 0 if it is neither."""
    if value.isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())


def _wait_asked_for(response: aiohttp.ClientResponse) -> float:
    return retry_after_s(response.headers.get("Retry-After", ""), datetime.now(UTC))


def _target_host(response: aiohttp.ClientResponse) -> str:
    try:
        target = urlsplit(urljoin(str(response.url), response.headers.get("Location", "")))
    except ValueError:
        return "an address that cannot be read"
    return target.hostname or "an address without a host"
