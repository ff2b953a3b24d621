"""Asking a running server, for the commands that do."""

from collections.abc import Mapping
from typing import Annotated, Any

import httpx
import typer

from deployments.commands.terminal import fail

DEFAULT_URL = "http://127.0.0.1:8000"
UrlOption = Annotated[str, typer.Option(help="Where the server is.")]
KeyOption = Annotated[
    str | None, typer.Option(envvar="CRAG_API_KEY", help="The server's API key.", show_envvar=True)
]


def posted(
    url: str, path: str, body: Mapping[str, Any], timeout_s: float, api_key: str | None
) -> dict[str, Any]:
    """The reply of a running server; ends the command with a sentence when there is none."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        response = httpx.post(f"{url.rstrip('/')}{path}", json=body, timeout=timeout_s, headers=headers)
    except httpx.ConnectError:
        fail(f"no server answers at {url}: start one with `crag serve configs/embedded.yaml`")
    except httpx.HTTPError as error:
        fail(f"the request to {url} failed: {error}")
    try:
        reply: dict[str, Any] = response.json()
        refusal = reply.get("error")
    except (ValueError, AttributeError):
        fail(f"{url} answered HTTP {response.status_code}, and not as this server does")
    if refusal is not None:
        fail(f"{response.status_code} {refusal['code']}: {refusal['message']}")
    return reply
