"""`python -m benchmarks.overhead.one_process CONFIG PORT`: the instant application without Ray.

The same ingress, graph and stages in one process and one event loop, called directly: what they cost
themselves, so that what serving them apart adds can be told from it.
"""

import asyncio
import sys
from pathlib import Path

import uvicorn

from benchmarks.overhead.instant_app import LEAVES
from deployments.app import wired
from deployments.in_process import InProcess, without_access
from deployments.local import app_settings, load_config


async def main(config: Path, port: int) -> None:
    """Serve until terminated."""
    hosting = InProcess()
    ingress = wired(without_access(app_settings(load_config(config))), LEAVES, hosting)
    await hosting.started()
    serving = uvicorn.Config(
        ingress.replica.api(), host="127.0.0.1", port=port, access_log=False, log_level="warning"
    )
    await uvicorn.Server(serving).serve()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
