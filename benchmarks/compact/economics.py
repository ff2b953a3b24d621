"""What a base of atomic pairs costs and saves: tokens, calls and seconds a question, and the break-even.

The base is paid for once, in tokens of the model that reads the corpus; each question then costs less
than by a baseline. N questions break even where offline + N * compact = N * baseline.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from benchmarks.figures import STYLE, new_axes, svg
from benchmarks.quality.statistics import Difference, paired_difference
from benchmarks.report import table
from crag_core.metrics import percentile

COMPACT, RIVAL = "compact", "iter_retgen"
_QUESTIONS_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One question by one method: what it cost, and how right the answer was; `failure` is its code.

    A failure counts as wrong, and has no cost that could be compared.
    """

    id: str
    method: str
    prompt_tokens: int
    completion_tokens: int
    calls: int
    attempts: int
    seconds: float
    exact_match: float
    f1: float
    failure: str | None = None

    @property
    def tokens(self) -> int:
        """Of all successful completions, as the generator reports them."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class BreakEven:
    """After how many questions a base has paid for itself, from and to by the tokens' 95 % interval.

    `None` where it never does.
    """

    questions: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class Economics:
    """The rows of a run by method, and what its base cost to build, where that is known."""

    asked: Mapping[str, Sequence[Asked]]
    offline_tokens: int | None

    @classmethod
    def of(cls, rows: Iterable[Asked], offline_tokens: int | None) -> "Economics":
        """Rows in any order; raises ValueError when there are none of `compact`."""
        asked: dict[str, list[Asked]] = {}
        for row in rows:
            asked.setdefault(row.method, []).append(row)
        if not any(row.failure is None for row in asked.get(COMPACT, [])):
            raise ValueError("no question was answered by `compact`: there is nothing to compare")
        return cls(asked, offline_tokens)

    def summary(self, method: str) -> dict[str, Any]:
        """Means over the questions answered; exact match and F1 over all."""
        asked = self.asked[method]
        answered = [row for row in asked if row.failure is None]
        seconds = [row.seconds for row in answered]
        calls = [row.calls for row in answered]
        return {
            "method": method,
            "n": len(asked),
            "failed": len(asked) - len(answered),
            "tokens": _mean([row.tokens for row in answered], 1),
            "prompt_tokens": _mean([row.prompt_tokens for row in answered], 1),
            "completion_tokens": _mean([row.completion_tokens for row in answered], 1),
            "calls": _mean(calls, 2),
            "calls_min_max": [min(calls), max(calls)] if calls else None,
            "attempts": _mean([row.attempts for row in answered], 2),
            "seconds": _mean(seconds, 2),
            "seconds_p50": round(percentile(seconds, 0.5), 2) if seconds else None,
            "seconds_p95": round(percentile(seconds, 0.95), 2) if seconds else None,
            "exact_match": _mean([row.exact_match for row in asked], 4),
            "f1": _mean([row.f1 for row in asked], 4),
        }

    def saved(self, method: str, unit: str) -> Difference:
        """How many `tokens` or `seconds` a question more than `compact` the method takes, paired."""
        ours = {row.id: row for row in self.asked[COMPACT] if row.failure is None}
        pairs = [
            (getattr(row, unit), getattr(ours[row.id], unit))
            for row in self.asked[method]
            if row.failure is None and row.id in ours
        ]
        return paired_difference([theirs for theirs, _ in pairs], [own for _, own in pairs])

    def break_even(self, method: str) -> BreakEven | None:
        """Against one method; `None` where the base's cost is unknown."""
        if self.offline_tokens is None:
            return None
        saved = self.saved(method, "tokens")
        # the more is saved a question, the sooner
        return BreakEven(*(_questions(self.offline_tokens, each) for each in
                           (saved.mean, saved.high, saved.low)))  # fmt: skip

    def report(self) -> dict[str, Any]:
        """All of it, for programs."""
        others = [method for method in self.asked if method != COMPACT]
        break_evens = {method: self.break_even(method) for method in others}
        return {
            "offline_tokens": self.offline_tokens,
            "methods": [self.summary(method) for method in self.asked],
            "more_than_compact": {
                method: {unit: asdict(self.saved(method, unit)) for unit in ("tokens", "seconds")}
                for method in others
            },
            "break_even": {name: asdict(each) for name, each in break_evens.items() if each},
        }

    def markdown(self) -> str:
        """All of it, for people."""
        header = ["method", "tokens", "prompt + completion", "calls", "from-to", "s mean", "s p50",
                  "s p95", "EM", "F1", "failed"]  # fmt: skip
        rows = []
        for method in self.asked:
            row = self.summary(method)
            calls = "-".join(str(each) for each in row["calls_min_max"] or ())
            cells = [row["tokens"], f"{row['prompt_tokens']} + {row['completion_tokens']}", row["calls"],
                     calls, row["seconds"], row["seconds_p50"], row["seconds_p95"], row["exact_match"],
                     row["f1"], row["failed"]]  # fmt: skip
            rows.append([method, *("-" if cell is None else str(cell) for cell in cells)])
        parts = [f"{len(self.asked[COMPACT])} questions, one at a time.", table(header, rows)]
        parts.append(self._compared())
        if RIVAL in self.asked:
            slower = self.saved(RIVAL, "seconds")
            parts.append(f"A question by {RIVAL} takes {_interval(slower, 2)} s more than by compact.")
        return "\n\n".join(parts)

    def _compared(self) -> str:
        rows = []
        for method in self.asked:
            if method == COMPACT:
                continue
            tokens, seconds = self.saved(method, "tokens"), self.saved(method, "seconds")
            even = self.break_even(method)
            rows.append([method, _interval(tokens, 0), _interval(seconds, 2), _even(even)])
        known = self.offline_tokens
        built = "The base's cost is unknown" if known is None else f"The base took {known:,} tokens"
        header = ["against", "tokens more a question", "s more a question", "break-even, questions"]
        return f"{built}; intervals are of 95 %, paired by question.\n\n{table(header, rows)}"

    def curve(self) -> str:
        """Tokens spent after so many questions, the base included, as SVG."""
        from matplotlib import rc_context  # takes half a second

        offline = self.offline_tokens or 0
        evens = [self.break_even(method) for method in self.asked if method != COMPACT]
        known = [even.questions for even in evens if even and even.questions]
        last = max([*(2 * questions for questions in known), _QUESTIONS_SHOWN])
        with rc_context(STYLE):
            figure, axes = new_axes("questions", "million tokens, the base included", height=3.6)
            for method in self.asked:
                tokens = self.summary(method)["tokens"]
                if tokens is not None:
                    begun = offline if method == COMPACT else 0
                    axes.plot([0, last], [begun / 1e6, (begun + last * tokens) / 1e6], label=method)
            for questions in known:
                axes.axvline(questions, color="grey", linewidth=0.6, linestyle=":")
            axes.set_xlim(0, last)
            axes.set_ylim(0)
            return svg(figure, axes)


def asked_of(line: Mapping[str, Any]) -> Asked:
    """A row as it was written; raises ValueError when it is none."""
    try:
        return Asked(**line)
    except TypeError as error:
        raise ValueError(
            f"{json.dumps(line)} is no row of this benchmark: choose another --out"
        ) from error


def _questions(offline_tokens: int, saved_tokens: float) -> int | None:
    return math.ceil(offline_tokens / saved_tokens) if saved_tokens > 0 else None


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(fmean(values), digits) if values else None


def _interval(difference: Difference, digits: int) -> str:
    mean, low, high = (f"{each:+,.{digits}f}" for each in
                       (difference.mean, difference.low, difference.high))  # fmt: skip
    return f"{mean} ({low} to {high})"


def _even(even: BreakEven | None) -> str:
    if even is None:
        return "-"
    shown = ["never" if each is None else f"{each:,}" for each in (even.questions, even.low, even.high)]
    return shown[0] if len(set(shown)) == 1 else f"{shown[0]} ({shown[1]} to {shown[2]})"
