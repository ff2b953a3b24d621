"""Threads that share a batch between a CPU's cores, each with a piece of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class WorkerThreads:
    """Runs the pieces of a batch side by side, torch on one core for each.

    Torch's own threads meet after every operation, so one that the system holds up delays them all;
    these meet once, at the end of the batch. A single piece is still shared by torch's threads.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        if threads > 1:
            started = threading.Barrier(threads)
            self._pool = ThreadPoolExecutor(threads, "forward", _use_one_core)
            for future in [self._pool.submit(started.wait) for _ in range(threads)]:
                future.result()
        # What a worker set for itself is also the default of threads to come: set that last.
        torch.set_num_threads(threads)

    def map(self, run: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
        """One result per piece, in order; the first failure is raised."""
        if self._pool is None or len(pieces) == 1:
            return [run(piece) for piece in pieces]
        return list(self._pool.map(run, pieces))


def balanced(lengths: Sequence[int], pieces: int) -> list[list[int]]:
    """Positions shared out so that every piece holds nearly the same number of tokens.

    >>> balanced([5, 9, 2, 3], pieces=2)
    [[1], [0, 3, 2]]
    """
    shares: list[list[int]] = [[] for _ in range(min(pieces, len(lengths)))]
    tokens = [0] * len(shares)
    for position in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        lightest = tokens.index(min(tokens))
        shares[lightest].append(position)
        tokens[lightest] += lengths[position]
    return shares


def _use_one_core() -> None:
    torch.get_num_threads()  # a thread takes over the process's setting at its first use: do that now
    torch.set_num_threads(1)
