"""`python -m benchmarks ablation`."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.ablation.features import VARIANTS, WHOLE, Questions, Variant
from benchmarks.peers.answers import OURS, Asked, reply_of, sample_questions, with_t5, without_compact
from benchmarks.peers.contest import Turn, turn
from benchmarks.peers.contestants import HttpContestant
from benchmarks.peers.equality import Equality, compared
from benchmarks.peers.result import Spread
from benchmarks.published import Published
from benchmarks.report import table
from benchmarks.served_application import Config, read_config, served

_WARM_UP, _ALONE = 2, 6
_ZIPF_EXPONENT = 1.1
_NAMES = ", ".join(variant.name for variant in VARIANTS if variant is not WHOLE)


@dataclass(frozen=True, slots=True)
class Measured:
    """A variant in one cluster of its own: under load, then one question at a time."""

    loaded: Turn
    alone: Turn


@dataclass(frozen=True, slots=True)
class Row:
    """What a feature is worth: the server without it against the whole one, by repeat."""

    feature: str
    instead: str
    questions: Questions
    per_s: Spread
    cpu_ms: Spread
    alone_ms: Spread
    times_slower: Spread
    times_dearer: Spread
    times_longer_alone: Spread
    equality: Equality


def ablation(
    without: Annotated[
        list[str] | None, typer.Option(help=f"One of: {_NAMES}; each in turn, if not given.")
    ] = None,
    config: Annotated[Path, typer.Option(help="Serve config file to change.")] = Path(
        "configs/embedded.yaml"
    ),
    questions: Annotated[int, typer.Option(help="Questions under load.", min=4)] = 32,
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.", min=1)] = 3,
    at_once: Annotated[int, typer.Option(help="Questions in flight.", min=1, max=64)] = 8,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON and Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Switch off each feature in turn: its worth, and that answers stay the same; exit 1 if not.

    The evaluator is a T5 of the small shape in float32, the generator answers at once.
    """
    by_name = {variant.name: variant for variant in VARIANTS}
    unknown = set(without or ()) - (set(by_name) - {WHOLE.name})
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: choose among {_NAMES}")
    chosen = [by_name[name] for name in without] if without else [v for v in VARIANTS if v is not WHOLE]
    kinds = dict.fromkeys(variant.questions for variant in chosen)
    runs = [*(replace(WHOLE, questions=kind) for kind in kinds), *chosen]
    console = Console(stderr=True)
    base = with_t5(without_compact(read_config(config)), "float32")
    base["applications"][0]["args"]["evaluator"]["threads"] = 2
    measured: dict[tuple[str, Questions], list[Measured]] = {}
    for repeat in range(repeats):
        for variant in runs[repeat % len(runs) :] + runs[: repeat % len(runs)]:
            found = _measured(variant, base, questions, at_once, repeat)
            measured.setdefault((variant.name, variant.questions), []).append(found)
            console.print(
                f"without {variant.name}, {variant.questions} questions: {found.loaded.per_s:.3g}/s, "
                f"{found.loaded.cpu_ms:.0f} CPU-ms, alone {1000 / found.alone.per_s:.0f} ms",
                highlight=False,
            )
    names = [one.question for one in _loaded(Questions.FRESH, questions)]
    rows = [_row(variant, measured, names) for variant in [*runs[: len(kinds)], *chosen]]
    data: dict[str, Any] = {"repeats": repeats, "rows": [asdict(row) for row in rows]}
    Published("ablation", data, markdown(rows, repeats, at_once)).show(as_json=as_json, out=out)
    if not all(row.equality.holds for row in rows):
        raise typer.Exit(1)


def _loaded(kind: Questions, count: int) -> list[Asked]:
    match kind:
        case Questions.FRESH:
            texts = sample_questions(count, skip=_WARM_UP + _ALONE)
        case Questions.REPEATED:
            asked = sample_questions(count, skip=_WARM_UP + _ALONE)
            weights = list(accumulate(rank**-_ZIPF_EXPONENT for rank in range(1, count + 1)))
            texts = random.Random(0).choices(asked, cum_weights=weights, k=count)
    return [Asked(text, 1) for text in texts]


def _measured(variant: Variant, base: Config, questions: int, at_once: int, repeat: int) -> Measured:
    first = [Asked(text, 1) for text in sample_questions(_WARM_UP + _ALONE)]
    with served(variant.config(base), variant.env) as server:
        ours = HttpContestant(OURS, server, "/v1/answer", Asked.body, reply_of, at_once)
        ours.ask(first[:_WARM_UP], at_once)
        loaded = turn(ours, repeat, _loaded(variant.questions, questions), at_once)
        alone = turn(ours, repeat, first[_WARM_UP:], 1)
    return Measured(loaded, alone)


def _row(
    variant: Variant, measured: dict[tuple[str, Questions], list[Measured]], names: Sequence[str]
) -> Row:
    own = measured[variant.name, variant.questions]
    whole = measured[WHOLE.name, variant.questions]
    pairs = list(zip(whole, own, strict=True))
    # the texts are the instant generator's: what is held against the whole server is what is decided
    expected = [reply for one in whole[:1] for reply in one.loaded.replies]
    found = [reply for one in own[:1] for reply in one.loaded.replies]
    return Row(
        feature=variant.name,
        instead=variant.title,
        questions=variant.questions,
        per_s=Spread.of([one.loaded.per_s for one in own]),
        cpu_ms=Spread.of([one.loaded.cpu_ms for one in own]),
        alone_ms=Spread.of([1000 / one.alone.per_s for one in own]),
        times_slower=Spread.of([w.loaded.per_s / o.loaded.per_s for w, o in pairs]),
        times_dearer=Spread.of([o.loaded.cpu_ms / w.loaded.cpu_ms for w, o in pairs]),
        times_longer_alone=Spread.of([w.alone.per_s / o.alone.per_s for w, o in pairs]),
        equality=compared(names, expected, found, found),
    )


def markdown(rows: Sequence[Row], repeats: int, at_once: int) -> str:
    """The table, and what was not equal."""
    header = ["without", "instead", "questions", "questions/s", "CPU-ms a question", "ms alone",
              "slower by", "dearer by", "longer alone by", "decisions equal"]  # fmt: skip
    lines = [
        [
            row.feature, row.instead, row.questions,
            *(str(figure) if row.equality.holds else "-" for figure in (
                row.per_s, row.cpu_ms, row.alone_ms,
                row.times_slower, row.times_dearer, row.times_longer_alone,
            )),
            f"{row.equality.decided_equal} of {row.equality.works}",
        ]
        for row in rows
    ]  # fmt: skip
    parts = [
        "## Each feature off in turn",
        table(header, lines),
        f"Minimum / median / maximum of {repeats} interleaved repeats, each in a cluster of its own; "
        f"ratios within a repeat; {at_once} questions in flight. The evaluator is a T5 of the small "
        "shape in float32, the generator answers at once.",
    ]
    for row in rows:
        if not row.equality.holds:
            parts.append(f"Without {row.feature} answers are UNEQUAL:")
            parts.append("\n".join(f"- {line}" for line in row.equality.differences))
    return "\n\n".join(parts)
