"""Where the load goes: loopback, or a host that was allowed by name."""

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

_PROBE_TIMEOUT_S = 5.0
_MAX_PROBE_BYTES = 64 * 1024
_PAUSE_S = 0.25


class TargetError(ValueError):
    """The address is none that load may be sent to."""


@dataclass(frozen=True, slots=True)
class Target:
    """An origin with a path before every route; `ip` is there once the name was resolved."""

    scheme: str
    host: str
    port: int
    prefix: str
    ip: str = ""

    @property
    def url(self) -> str:
        """The address as a person writes it."""
        return f"{self.scheme}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_target(url: str, allowed_hosts: Sequence[str]) -> Target:
    """The target of a URL.

    Raises TargetError for anything but http and https without credentials, and for hosts that are
    neither loopback nor among `allowed_hosts`: load on a machine of others is an attack.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetError(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise TargetError(f"{url!r} is no http or https address")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise TargetError("the address may hold a path, but no credentials, query or fragment")
    host = parts.hostname
    if not _is_loopback(host) and host not in {allowed.lower() for allowed in allowed_hosts}:
        raise TargetError(
            f"{host} is not this machine: name it with --allow-host if you may put load on it"
        )
    port = port or (443 if parts.scheme == "https" else 80)
    return Target(parts.scheme, host, port, parts.path.rstrip("/"))


def tls() -> ssl.SSLContext:
    """How certificates are checked: by the machine's authorities, or those of SSL_CERT_FILE."""
    return ssl.create_default_context()


def wait_until_ready(target: Target, wait_s: float) -> tuple[Target, str | None]:
    """The target with its address resolved, and None, or why it is not ready after `wait_s` seconds.

    `/readyz` is asked; a server that has no such route is taken as ready.
    """
    give_up_s = time.monotonic() + wait_s
    while True:
        target, reason = _probe(target)
        if reason is None or time.monotonic() + _PAUSE_S > give_up_s:
            return target, reason
        time.sleep(_PAUSE_S)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _probe(target: Target) -> tuple[Target, str | None]:
    reason = f"no server answers at {target.url}"
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return target, f"{target.host} cannot be resolved: {error}"
    for ip in dict.fromkeys(str(entry[4][0]) for entry in found):
        try:
            socket.create_connection((ip, target.port), timeout=_PROBE_TIMEOUT_S).close()
        except OSError:
            continue
        resolved = Target(target.scheme, target.host, target.port, target.prefix, ip)
        return resolved, _readiness(resolved)
    return target, reason


def _readiness(target: Target) -> str | None:
    try:
        # an environment's proxy must not stand between the load and its server
        with (
            httpx.Client(verify=tls(), trust_env=False, timeout=_PROBE_TIMEOUT_S) as client,
            client.stream("GET", f"{target.url}/readyz") as response,
        ):
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return None
            body = next(response.iter_bytes(_MAX_PROBE_BYTES), b"")
    except httpx.TimeoutException:
        return f"{target.url} accepts connections and does not answer"
    except httpx.HTTPError as error:
        said = "".join(char for char in str(error)[:200] if char.isprintable())
        return f"{target.url} does not speak HTTP as expected: {said or type(error).__name__}"
    return f"{target.url} is not ready: {_waiting_for(body)}"


def _waiting_for(body: bytes) -> str:
    try:
        stages = json.loads(body)["stages"]
        waiting = [name for name, stage in stages.items() if stage["state"] != "ready"]
        return ", ".join(str(name)[:40] for name in waiting[:10]) or "HTTP 503"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "HTTP 503"
