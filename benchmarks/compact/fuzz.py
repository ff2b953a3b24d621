"""`python -m benchmarks compact-fuzz`: the plan normaliser on outputs that were broken at random."""

import json
import random
import time
from typing import Annotated

import typer

from crag_core.compact.lenient_json import read_json
from crag_core.compact.plan import normalise_plan
from crag_core.compact.settings import PlanLimits

_WELL_FORMED = (
    '[{"index": 0, "q": "Who is the director of Jaws?", "ref": "None"}, '
    '{"index": 1, "q": "Where was [answer to Q0] born?", "ref": "0"}, '
    '{"index": 2, "q": "Which is earlier, #0 or #1?", "ref": "0,1"}]',
    'Here is the plan:\n```json\n[{"index":1,"q":"Who made it?","ref":[]},'
    '{"index":2,"q":"When was this director born?","ref":[1]}]\n```\nDone.',
    '{"sub_questions": ["Who made Jaws?", "Where was he born?"]}',
    '{"question": "Q", "thought": "He said \\"no\\".", "answer": "Paris"}',
)
_SPLINTERS = [*'[]{}",:\\#0123456789\n\t ', "null", "NaN", "```", "#1", "[Q0]", "\u2028", "\ud800", "\0",
              "ref", '"q":', "é", "東京", "</s>", "'", "//", "1e999", "-"]  # fmt: skip


def compact_fuzz(
    outputs: Annotated[int, typer.Option(help="Outputs to break.", min=1)] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of the breaking.")] = 0,
) -> None:
    """Break model outputs at random; every one must become a plan that can be resolved, in time."""
    chance = random.Random(seed)
    limits, slowest, malformed, started = PlanLimits(), 0.0, 0, time.perf_counter()
    for _ in range(outputs):
        text = broken(chance)
        began = time.perf_counter()
        plan = normalise_plan(text, "Where was the director of Jaws born?", limits)
        read_json(text)
        slowest = max(slowest, time.perf_counter() - began)
        malformed += plan.is_malformed
        resolved = sum(len(level) for level in plan.levels)
        tails = sum(sub.is_comparison for sub in plan.sub_questions)
        if resolved + tails != len(plan.sub_questions) or not plan.sub_questions:
            typer.echo(f"no plan that can be resolved came of {text!r}", err=True)
            raise typer.Exit(1)
    seconds = time.perf_counter() - started
    report = {
        "outputs": outputs,
        "malformed": malformed,
        "slowest_s": round(slowest, 4),
        "seconds": round(seconds, 1),
    }
    typer.echo(json.dumps(report))


def broken(chance: random.Random) -> str:
    """A well-formed output with parts cut, doubled, shuffled or splintered."""
    text = chance.choice(_WELL_FORMED)
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randrange(12))
        match chance.randrange(5):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + chance.choice(_SPLINTERS) * chance.randint(1, 3) + text[start:]
            case 2:
                text = text[:start] + text[start:end] * 2 + text[end:]
            case 3:
                text = text[:start]
            case _:
                text = text[:start] + chance.choice(_SPLINTERS) + text[end:]
    return text
