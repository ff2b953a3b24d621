"""Records the load that test_scaling.py replays: device seconds asked of the embedded evaluator, by
second.

Arrivals are those of the load generator, bursts within a rise and a fall; the requests are its own, and
each one's device time is measured on the real evaluator, alone.

usage: python -m tests.deployments.evaluator_load > tests/deployments/evaluator_load.csv
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator

from benchmarks.load.arrivals import gamma
from benchmarks.load.settings import LoadSettings, WorkloadSettings
from benchmarks.load.workloads import WorkloadName, workload
from crag_core.context import RequestContext
from crag_core.types import Passage
from deployments.backends.batching.token_batcher import TokenBatcher
from deployments.backends.evaluators.scorer import load_scorer
from deployments.local import app_settings, load_config
from tests.deployments.test_cli import ROOT

_SECONDS = 300
_PEAK_PER_S = 1.2


def arrivals() -> Iterator[float]:
    """Bursts whose rate rises to its peak and falls again."""
    for at_s in gamma(_PEAK_PER_S, 2.0, seed=7):
        if at_s >= _SECONDS:
            return
        share = math.sin(math.pi * at_s / _SECONDS)
        if (at_s * 997.0) % 1.0 < share:
            yield at_s


async def main() -> None:
    """Print the recording as CSV."""
    settings = app_settings(load_config(ROOT / "configs/embedded.yaml")).evaluator
    batcher = TokenBatcher(load_scorer(settings), settings.batching)
    made = workload(LoadSettings(workload=WorkloadSettings(name=WorkloadName.W3)))
    asked_s: Counter[int] = Counter()
    before_s = 0.0
    for number, at_s in enumerate(arrivals()):
        body = json.loads(made.request(number).body)
        passages = [Passage(text) for text in body["documents"]]
        ctx = RequestContext.starting_now(f"recorded-{number}", 60.0)
        await batcher.evaluate(ctx, body["question"], passages)
        device_s = batcher.stats().device_seconds
        asked_s[int(at_s)] += round(1e4 * (device_s - before_s))
        before_s = device_s
    await batcher.stop()
    print("second,device_seconds")
    for second in range(_SECONDS):
        print(f"{second},{asked_s[second] / 1e4:g}")


if __name__ == "__main__":
    asyncio.run(main())
