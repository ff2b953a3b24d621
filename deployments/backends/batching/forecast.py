"""The forecast: when the device will be through with what waits, and whether to believe it."""

import math

from deployments.backends.batching.cost_model import CostModel, Load

_TRUSTED_FOR_S = 10.0


class Forecast:
    """Device times of whole loads, cut into batches, from what earlier batches took.

    Times are on the caller's monotonic clock.
    """

    def __init__(self, max_tokens_per_batch: int) -> None:
        self.cost = CostModel()
        self._max_tokens_per_batch = max_tokens_per_batch
        self._running: Load | None = None
        self._started_s = 0.0
        self._ended_s = -math.inf

    def batch_starts(self, load: Load, now_s: float) -> None:
        """The device is busy from now on."""
        self._running, self._started_s = load, now_s

    def batch_ends(self, seconds: float | None, now_s: float) -> None:
        """The device is free after so many seconds of work; None when they teach nothing."""
        if self._running is not None and seconds is not None:
            self.cost.observe(self._running, seconds)
        self._running, self._ended_s = None, now_s

    def is_trusted(self, now_s: float) -> bool:
        """Whether to turn work away on the strength of a prediction.

        Only while batches run: a wrong prediction that keeps the device idle is forgotten.
        """
        is_recent = self._running is not None or now_s - self._ended_s < _TRUSTED_FOR_S
        return self.cost.is_warm and is_recent

    def seconds(self, load: Load) -> float:
        """Device time of a load."""
        return self.cost.seconds(load, math.ceil(load.tokens / self._max_tokens_per_batch))

    def seconds_until_done(self, load: Load, now_s: float) -> float:
        """Seconds until a load is through that runs right after the batch on the device."""
        seconds = self.seconds(load)
        if self._running is not None:
            seconds += max(0.0, self.seconds(self._running) - (now_s - self._started_s))
        return seconds
