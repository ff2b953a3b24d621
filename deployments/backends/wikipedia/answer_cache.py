"""Answers of a wiki, kept for a while: fresh ones, empty ones, and old ones for times of trouble."""

from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TLRUCache

from deployments.settings import SearchCacheSettings


@dataclass(frozen=True, slots=True)
class _Stored:
    body: bytes
    is_negative: bool
    fresh_until_s: float


class AnswerCache:
    """The least recently used leave first; bounded in bytes and in entries; on its caller's clock.

    An answer is fresh for `ttl_s`, one without a page for `negative_ttl_s`. A stale answer is kept for
    `stale_s`, to be used when the wiki fails; an empty one never is, for an outage must not look like
    "nothing found".
    """

    def __init__(self, settings: SearchCacheSettings, clock: Callable[[], float]) -> None:
        """An empty cache."""
        self._settings = settings
        self._clock = clock
        # an entry weighs at least its share of the limit, so that one number bounds bytes and entries
        self._least_bytes = max(1, settings.max_bytes // settings.max_entries)
        self._stored: TLRUCache[bytes, _Stored] = TLRUCache(
            settings.max_bytes, self._until_s, clock, self._weight_bytes
        )

    def put(self, key: bytes, body: bytes, *, is_negative: bool) -> None:
        """Keep an answer, unless it is too large to be worth it."""
        if len(body) > min(self._settings.max_entry_bytes, self._settings.max_bytes):
            return
        ttl_s = self._settings.negative_ttl_s if is_negative else self._settings.ttl_s
        if ttl_s > 0:
            self._stored[key] = _Stored(body, is_negative, self._clock() + ttl_s)

    def fresh(self, key: bytes) -> bytes | None:
        """The answer, if it is fresh."""
        stored = self._stored.get(key)
        return stored.body if stored and self._clock() < stored.fresh_until_s else None

    def stale(self, key: bytes) -> bytes | None:
        """The answer, fresh or not, if it names a page."""
        stored = self._stored.get(key)
        return stored.body if stored and not stored.is_negative else None

    @property
    def entries(self) -> int:
        """Answers kept."""
        return len(self._stored)

    def _until_s(self, key: bytes, stored: _Stored, now_s: float) -> float:
        stale_until_s = now_s if stored.is_negative else now_s + self._settings.stale_s
        return max(stored.fresh_until_s, stale_until_s)

    def _weight_bytes(self, stored: _Stored) -> int:
        return max(self._least_bytes, len(stored.body))
