"""The plain CRAG behind FastAPI, as tutorials have it: models loaded once, a lock around them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI

from benchmarks.peers.plain_crag import PlainCrag, read_settings
from benchmarks.peers.plain_models import PlainGenerator


def create_app(crag: PlainCrag) -> FastAPI:
    """One route, and one to see that it serves."""
    app = FastAPI()

    @app.get("/health")
    def health() -> str:
        return "ok"

    @app.post("/answer")
    async def answer(body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return await crag.answer(body)

    return app


def main(config: str, port: str) -> None:
    """Serve on loopback until Ctrl-C."""
    settings = read_settings(Path(config))
    crag = PlainCrag(settings, PlainGenerator(settings.generator))
    uvicorn.run(create_app(crag), host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
