"""The padded forward behind LitServe: `litserve_peer.py` starts it with LitServe on the path."""

import sys
from typing import Any

import litserve
import torch
from transformers import T5ForSequenceClassification

from benchmarks.engine.peers import padded_batch


class Scorer(litserve.LitAPI):  # type: ignore[misc]  # where types are checked there is no LitServe
    """One pair of token ids per request, to its score."""

    def __init__(self, checkpoint: str, threads: int, max_pairs: int, wait_s: float) -> None:
        super().__init__(max_batch_size=max_pairs, batch_timeout=wait_s)
        self._checkpoint = checkpoint
        self._threads = threads

    def setup(self, device: str) -> None:
        """Load the model, in the process that runs it."""
        torch.set_num_threads(self._threads)
        self._model = T5ForSequenceClassification.from_pretrained(self._checkpoint, dtype="auto")

    def decode_request(self, request: dict[str, Any]) -> list[int]:
        """The ids of a pair."""
        ids: list[int] = request["ids"]
        return ids

    def batch(self, inputs: list[list[int]]) -> list[list[int]]:
        """Pairs as they are: they are padded in the forward."""
        return inputs

    def predict(self, pairs: list[list[int]]) -> list[float]:
        """Scores of a batch."""
        return padded_batch(self._model, pairs)

    def unbatch(self, scores: list[float]) -> list[float]:
        """Scores as they are."""
        return scores

    def encode_response(self, score: float) -> dict[str, float]:
        """The reply to one request."""
        return {"score": score}


def main(checkpoint: str, port: str, threads: str, max_pairs: str, wait_s: str) -> None:
    """Serve on loopback until killed."""
    # It cannot import the MCP package that vLLM brings, which is newer, and MCP is not asked for here.
    litserve.server._MCP_AVAILABLE = False
    scorer = Scorer(checkpoint, int(threads), int(max_pairs), float(wait_s))
    server = litserve.LitServer(
        scorer, accelerator="cpu", devices=1, workers_per_device=1, fast_queue=True, timeout=False
    )
    server.run("127.0.0.1", int(port), num_api_servers=1, log_level="error", generate_client_file=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
