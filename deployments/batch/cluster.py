"""Blocks answered on a Ray cluster: actors of Ray Data, fed one block at a time."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import ray
from ray.data import ActorPoolStrategy

from crag_core.errors import SettingsError
from deployments.batch.answering import BatchSettings, BlockAnswerer
from deployments.batch.blocks import Block


def answered_on_cluster(
    blocks: Sequence[Block], settings: BatchSettings, *, workers: int, address: str | None
) -> Iterator[dict[str, Any]]:
    """What became of each block, in no order: `part`, `records`, `errors`, `unfinished`.

    The cluster at `address`, or else a new one of this machine, which ends with the blocks. An actor
    that dies is replaced and its block asked again. Raises SettingsError when there is no cluster.
    """
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(address, workers)
    try:
        rows = ray.data.from_items(
            [{"block": asdict(block)} for block in blocks], override_num_blocks=len(blocks)
        )
        done = rows.map_batches(
            BlockAnswerer,
            fn_constructor_args=(settings,),
            batch_size=1,
            compute=ActorPoolStrategy(size=min(workers, len(blocks))),
            num_cpus=1 if address else 0,
            max_restarts=-1,
            max_task_retries=-1,
        )
        yield from done.iter_rows()
    finally:
        if is_ours:
            ray.shutdown()


def _connect(address: str | None, workers: int) -> None:
    try:
        ray.init(
            address=address or "local",
            num_cpus=None if address else workers + 1,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError) as error:
        raise SettingsError(f"no Ray cluster answers at {address}: {error}") from error
    ray.data.DataContext.get_current().enable_progress_bars = False
