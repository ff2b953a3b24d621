"""The gate: a run against a committed baseline, question by question; worse beyond noise fails."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.quality.analysis import SetResults
from benchmarks.quality.methods import Method
from benchmarks.quality.statistics import Difference, paired_difference

_SIGNIFICANT_P = 0.05

Share = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SetBaseline(_Strict):
    """One set: the headline's value of every judged question, by method and id."""

    metric: str
    methods: dict[Method, dict[str, Share]]


class Baseline(_Strict):
    """What a run is compared with."""

    format: Literal[1] = 1
    command: str
    sets: dict[str, SetBaseline]


@dataclass(frozen=True, slots=True)
class Compared:
    """One method on one set against its baseline, over the questions that both have."""

    set: str
    method: Method
    metric: str
    before: float
    now: float
    difference: Difference

    @property
    def is_worse(self) -> bool:
        """Beyond noise: the paired interval and the paired test both say so."""
        return self.difference.is_worse and self.difference.p < _SIGNIFICANT_P

    def __str__(self) -> str:
        found = self.difference
        verdict = "WORSE" if self.is_worse else "ok"
        interval = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"
        return (
            f"{verdict}: {self.set}, {self.method}, {self.metric}: {100 * self.before:.1f} then, "
            f"{100 * self.now:.1f} now, {100 * found.mean:+.1f} points ({interval}, p {found.p:.2g}) "
            f"on {found.n} questions"
        )


def read_baseline(path: Path) -> Baseline:
    """A committed baseline; raises ValueError when the file is none, OSError when it is not there."""
    try:
        return Baseline.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path} is no baseline of `crag quality`: {error}") from error


def write_baseline(path: Path, results: Sequence[SetResults], command: str) -> None:
    """Make a run the baseline, whole or not at all."""
    sets = {
        each.questions.name: SetBaseline(
            metric=each.headline,
            methods={method: _values(each, method) for method in each.rows},
        )
        for each in results
    }
    content = Baseline(command=command, sets=sets).model_dump(mode="json")
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")
    aside.replace(path)


def compare(baseline: Baseline, results: Sequence[SetResults]) -> list[Compared]:
    """Each method and set that both have, by the ids that both have.

    Raises ValueError when a set has nothing in common with its baseline, so that a gate is never
    passed by measuring something else.
    """
    compared: list[Compared] = []
    for each in results:
        name = each.questions.name
        known = baseline.sets.get(name)
        shared = [method for method in each.rows if known and method in known.methods]
        if known is None or not shared or known.metric != each.headline:
            raise ValueError(f"the baseline has no {each.headline} of {name} by any of these methods")
        for method in shared:
            now, before = _values(each, method), known.methods[method]
            ids = [question for question in now if question in before]
            if not ids:
                raise ValueError(f"the baseline knows none of these questions of {name}")
            compared.append(_compared(each, method, ids, now, before))
    return compared


def _compared(
    results: SetResults,
    method: Method,
    ids: Sequence[str],
    now: Mapping[str, float],
    before: Mapping[str, float],
) -> Compared:
    ours, theirs = [now[name] for name in ids], [before[name] for name in ids]
    return Compared(
        results.questions.name,
        method,
        results.headline,
        sum(theirs) / len(ids),
        sum(ours) / len(ids),
        paired_difference(ours, theirs),
    )


def _values(results: SetResults, method: Method) -> dict[str, float]:
    return {row.id: row.metrics[results.headline] for row in results.judged[method]}
