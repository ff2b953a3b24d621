"""How many requests a minute one key may send, whatever room there is."""

import math
import time
from collections.abc import Callable

from cachetools import LRUCache

from crag_core.context import Lane
from crag_core.errors import Overloaded
from deployments.admission.gate import AdmissionObserver, Gate, Refusal
from deployments.settings import AdmissionSettings
from deployments.token_bucket import TokenBucket

_MOST_KEYS = 10_000
"""Of the keys that asked last; the bucket of a forgotten one is full again when it comes back."""


class KeyRates:
    """A token bucket for each key: an API key's id, or an address where no key was sent.

    Each ingress grants its part of the rate, so that all of them together grant the whole.
    """

    def __init__(
        self,
        settings: AdmissionSettings,
        gate: Gate,
        observer: AdmissionObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._gate, self._observer, self._clock = settings, gate, observer, clock
        self._buckets: LRUCache[str, TokenBucket] = LRUCache(_MOST_KEYS)

    def take(self, key: str, requests_per_minute: int | None = None) -> None:
        """Count a request of the key, whose own rate may be given; raises Overloaded beyond it."""
        per_minute = requests_per_minute or self._settings.requests_per_minute
        if per_minute is None:
            return
        now_s = self._clock()
        bucket = self._bucket(key, per_minute, now_s)
        wait_s = bucket.ready_in_s(now_s)
        if wait_s == 0:
            bucket.take(now_s)
            return
        self._observer.refused(Refusal.RATE, Lane.INTERACTIVE, wait_s)
        error = Overloaded(
            f"{key} may send {per_minute} requests a minute: try again in {math.ceil(wait_s)} s"
        )
        error.retry_after_s = wait_s
        raise error

    def _bucket(self, key: str, per_minute: int, now_s: float) -> TokenBucket:
        ingresses = self._gate.ingresses
        rate_per_s, burst = per_minute / 60 / ingresses, max(1, self._settings.burst // ingresses)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(rate_per_s, burst, now_s, float(burst))
        elif bucket.rate_per_s != rate_per_s:
            bucket.take_over(rate_per_s, burst, now_s)
        return bucket
