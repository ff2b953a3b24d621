"""What a contest comes to: medians, ratios by round, and whether they may be shown at all."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.peers.contest import Contest, Contestant, Reply, Turn, Work
from benchmarks.peers.equality import Equality, compared
from benchmarks.report import table


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several rounds."""

    lowest: float
    median: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        return cls(min(values), median(values), max(values))

    def __str__(self) -> str:
        return " / ".join(map(_figure, (self.lowest, self.median, self.highest)))


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant; the ratios are ours against its, and above 1 where ours is better."""

    contestant: str
    per_s: Spread
    cpu_ms: Spread
    times_faster: Spread | None = None
    times_cheaper: Spread | None = None
    equality: Equality | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One contest; `unit` names a piece of its work."""

    title: str
    unit: str
    works: int
    rounds: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether every contestant came to the same replies."""
        return all(row.equality is None or row.equality.holds for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"is_equal": self.is_equal, **asdict(self)}


def held(
    title: str,
    unit: str,
    contest: Contest[Work],
    warm_up: Sequence[Work],
    works: Sequence[Work],
    rounds: int,
    named: Callable[[Work], str],
    notes: Sequence[str] = (),
) -> Result:
    """Hold a contest whose first contestant is ours, over so many rounds of `works`."""
    size = len(works) // rounds
    parts = [works[number * size : (number + 1) * size] for number in range(rounds)]
    asked = [work for part in parts for work in part]
    turns = contest.hold(warm_up, parts)
    loaded = {
        one.name: [reply for turn in turns if turn.contestant == one.name for reply in turn.replies]
        for one in contest.contestants
    }

    def alone(one: Contestant[Work]) -> list[Reply]:
        return loaded[one.name] if one.is_serial else contest.alone(one, asked)

    ours, *peers = contest.contestants
    ours_alone = alone(ours)
    names = [named(work) for work in asked]
    rows = [_row(ours.name, turns)]
    for peer in peers:
        # the peer's replies are the reference: held against each of them, ours is against all
        equality = compared(names, alone(peer), loaded[ours.name], ours_alone)
        rows.append(_row(peer.name, turns, ours.name, equality))
    return Result(title, unit, len(asked), rounds, tuple(rows), tuple(notes))


def _row(
    name: str, turns: Sequence[Turn], ours: str | None = None, equality: Equality | None = None
) -> Row:
    own = [turn for turn in turns if turn.contestant == name]
    per_s, cpu_ms = Spread.of([t.per_s for t in own]), Spread.of([t.cpu_ms for t in own])
    if ours is None:
        return Row(name, per_s, cpu_ms)
    theirs = {turn.number: turn for turn in own}
    pairs = [(turn, theirs[turn.number]) for turn in turns if turn.contestant == ours]
    return Row(
        name,
        per_s,
        cpu_ms,
        Spread.of([we.per_s / they.per_s for we, they in pairs]),
        Spread.of([they.cpu_ms / we.cpu_ms for we, they in pairs]),
        equality,
    )


def _figure(value: float) -> str:
    """Three digits that count, never as a power."""
    return f"{float(f'{value:.3g}'):.10g}"


def markdown(result: Result) -> str:
    """The table, what was equal, and the notes; no figure of whom the gate stops."""
    unit = result.unit
    header = ["", f"{unit}s/s", f"CPU-ms a {unit}", "ours is faster by", "ours needs less CPU by",
              "decisions equal", "texts equal", "texts equal under load"]  # fmt: skip
    parts = [
        f"## {result.title}",
        table(header, [_cells(row) for row in result.rows]),
        f"Minimum / median / maximum of {result.rounds} interleaved rounds, {result.works} {unit}s in "
        "all; ratios are taken within a round.",
    ]
    for row in result.rows:
        if row.equality and not row.equality.holds:
            parts.append(f"{row.contestant} is UNEQUAL, so it has no figures:")
            parts.append("\n".join(f"- {line}" for line in row.equality.differences))
    return "\n\n".join([*parts, *result.notes])


def _cells(row: Row) -> list[str]:
    equal = row.equality
    if equal is None:
        return [row.contestant, str(row.per_s), str(row.cpu_ms), "1", "1", "", "", ""]
    counts = (equal.decided_equal, equal.texts_equal, equal.texts_equal_under_load)
    figures = [row.per_s, row.cpu_ms, row.times_faster, row.times_cheaper]
    shown = [str(figure) if equal.holds else "-" for figure in figures]
    return [row.contestant, *shown, *(f"{count} of {equal.works}" for count in counts)]
