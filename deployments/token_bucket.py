"""Pacing: how soon one more request may be sent."""

from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """A token bucket on a clock that its caller reads, in seconds.

    It starts empty: a bucket that takes the place of a lost one must not add a second burst to it. So in
    any 60 seconds at most `60 * rate_per_s + burst` tokens are taken, also across such a loss.
    """

    rate_per_s: float
    burst: int
    updated_s: float
    _tokens: float = 0.0

    def tokens(self, now_s: float) -> float:
        """Tokens there are."""
        gained = max(0.0, now_s - self.updated_s) * self.rate_per_s
        return min(float(self.burst), self._tokens + gained)

    def ready_in_s(self, now_s: float, tokens: int = 1) -> float:
        """Seconds until there will have been `tokens` more, were each taken as it comes."""
        missing = tokens - self.tokens(now_s)
        # less is rounding, not a missing token: a timer would fire too early for ever
        return missing / self.rate_per_s if missing > 1e-9 else 0.0

    def take(self, now_s: float) -> None:
        """Take one token; there must be one."""
        self._tokens = max(0.0, self.tokens(now_s) - 1.0)
        self.updated_s = max(now_s, self.updated_s)

    def take_over(self, rate_per_s: float, burst: int, now_s: float) -> None:
        """Go on at another rate, with the tokens there are."""
        self._tokens = min(self.tokens(now_s), float(burst))
        self.updated_s = max(now_s, self.updated_s)
        self.rate_per_s, self.burst = rate_per_s, burst
