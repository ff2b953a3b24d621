"""What Serve's controller says of this application; the one file that asks it."""

import ipaddress

from ray.serve.context import _get_global_client


def listens_outside_loopback() -> bool:
    """Whether other machines may reach the HTTP proxies; when Serve does not say, they may."""
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
