"""When requests are due: seeded arrival processes, and recorded ones, as seconds from the start."""

import json
import math
import random
from collections.abc import Iterator
from enum import StrEnum
from itertools import takewhile
from pathlib import Path


class Arrivals(StrEnum):
    """How requests arrive; all but `closed` are open loop: they do not wait for answers."""

    POISSON = "poisson"
    GAMMA = "gamma"
    CONSTANT = "constant"
    RAMP = "ramp"
    TRACE = "trace"
    CLOSED = "closed"


def poisson(rate_per_s: float, seed: int) -> Iterator[float]:
    """Independent arrivals: exponential gaps of `1 / rate_per_s` in the mean; none for a rate of 0."""
    return gamma(rate_per_s, 1.0, seed)


def gamma(rate_per_s: float, cv: float, seed: int) -> Iterator[float]:
    """Gamma gaps with coefficient of variation `cv`: above 1 arrivals come in bursts, below 1 evenly."""
    if rate_per_s <= 0:
        return
    generator = random.Random(f"arrivals/{seed}")
    shape = 1 / cv**2
    scale = 1 / (rate_per_s * shape)
    at_s = 0.0
    while True:
        at_s += generator.gammavariate(shape, scale)
        yield at_s


def constant(rate_per_s: float) -> Iterator[float]:
    """Equal gaps, the first arrival at once."""
    if rate_per_s <= 0:
        return
    number = 0
    while True:
        yield number / rate_per_s
        number += 1


def ramp(from_per_s: float, to_per_s: float, duration_s: float, seed: int) -> Iterator[float]:
    """Poisson arrivals whose rate goes in a straight line from one value to another in `duration_s`.

    A unit Poisson process read through the inverse of the integrated rate.
    """
    slope = (to_per_s - from_per_s) / duration_s
    expected_total = (from_per_s + to_per_s) / 2 * duration_s
    for expected in takewhile(lambda mass: mass < expected_total, poisson(1.0, seed)):
        root = math.sqrt(max(0.0, from_per_s**2 + 2 * slope * expected))
        # the form of the quadratic's solution that does not cancel, and holds for slope 0
        yield 2 * expected / (from_per_s + root)


def recorded(path: Path) -> list[float]:
    """Arrival times of a file: per line a number of seconds, or an object with `at_s`.

    The records of an earlier run are such a file. Times are sorted, for records stand in the order
    in which they ended. Raises ValueError with the line that is neither.
    """
    times_s: list[float] = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                at_s = float(entry["at_s"] if isinstance(entry, dict) else entry)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}:{number} is neither a number nor has `at_s`") from error
            if not 0 <= at_s < math.inf:
                raise ValueError(f"{path}:{number} is no time from the start: {at_s}")
            times_s.append(at_s)
    return sorted(times_s)
