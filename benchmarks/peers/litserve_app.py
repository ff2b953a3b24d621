"""The plain CRAG behind LitServe, in its environment."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import litserve

from benchmarks.peers.plain_crag import PlainCrag, read_settings
from benchmarks.peers.plain_models import PlainGenerator


class Answers(litserve.LitAPI):  # type: ignore[misc]  # where types are checked there is no LitServe
    """One question per request."""

    def __init__(self, config: str) -> None:
        super().__init__()
        self._config = config

    def setup(self, device: str) -> None:
        """Load the models, in the process that runs them."""
        settings = read_settings(Path(self._config))
        self._crag = PlainCrag(settings, PlainGenerator(settings.generator))
        self._loop = asyncio.new_event_loop()

    def predict(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a body of `/v1/answer`."""
        return self._loop.run_until_complete(self._crag.answer(body))


def main(config: str, port: str) -> None:
    """Serve on loopback until killed."""
    # It cannot import the MCP package that vLLM brings, which is newer, and MCP is not asked for here.
    litserve.server._MCP_AVAILABLE = False
    server = litserve.LitServer(
        Answers(config), accelerator="cpu", devices=1, workers_per_device=1, timeout=False
    )
    server.run("127.0.0.1", int(port), num_api_servers=1, log_level="error", generate_client_file=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
