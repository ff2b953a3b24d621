"""`python -m benchmarks peers`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.peer_environment import PeerNotInstalled
from benchmarks.peers import answers, evaluator, generator
from benchmarks.peers.answers import Asked, PeerName, sample_questions, with_t5, without_compact
from benchmarks.peers.contest import Contest
from benchmarks.peers.evaluator import Ranked
from benchmarks.peers.result import Result, held, markdown
from benchmarks.published import Published
from benchmarks.served_application import Config, read_config

_WARM_UP = 2


class ContestName(StrEnum):
    """What is compared."""

    ANSWERS_T5 = "answers-t5"
    """Whole answers, the evaluator a T5 of the small shape."""
    ANSWERS_EMBEDDED = "answers-embedded"
    """Whole answers, the evaluator the config's own."""
    GENERATOR = "generator"
    """The graph with instant stages, against the bare generator."""
    EVALUATOR = "evaluator"
    """The T5 alone, against a reranking server."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    config: Config
    peers: Sequence[PeerName]
    works: int
    rounds: int
    at_once: int
    max_new_tokens: int
    dtype: str
    console: Console

    def tell(self, what: str) -> None:
        self.console.print(what, highlight=False)


def peers(
    contest: Annotated[
        list[ContestName] | None, typer.Option(help="What is compared; everything, if not given.")
    ] = None,
    peer: Annotated[
        list[PeerName] | None, typer.Option(help="Who answers beside us; all, if not given.")
    ] = None,
    config: Annotated[Path, typer.Option(help="Serve config file of this server.")] = Path(
        "configs/embedded.yaml"
    ),
    questions: Annotated[int, typer.Option(help="Questions of all rounds together.", min=2)] = 24,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 3,
    at_once: Annotated[int, typer.Option(help="Questions in flight.", min=1, max=64)] = 8,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens generated at most.", min=1)] = 100,
    dtype: Annotated[str, typer.Option(help="The T5's weights: float32 or bfloat16.")] = "float32",
    out: Annotated[Path | None, typer.Option(help="Folder for JSON and Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Compare this server with what a user would pick instead; exit 1 where replies are not equal."""
    slim = without_compact(read_config(config))
    console = Console(stderr=True)
    wanted = _Wanted(
        slim, peer or list(PeerName), questions, rounds, at_once, max_new_tokens, dtype, console
    )
    is_equal = True
    for name in contest or ContestName:
        try:
            result = _held(name, wanted)
        except (PeerNotInstalled, RuntimeError) as error:
            console.print(f"{name}: {error}", markup=False, highlight=False)
            raise typer.Exit(2) from error
        is_equal = is_equal and result.is_equal
        Published(f"peers-{name}", result.as_dict(), markdown(result)).show(as_json=as_json, out=out)
    if not is_equal:
        raise typer.Exit(1)


def _held(name: ContestName, wanted: _Wanted) -> Result:
    wanted.tell(f"{name}: starting everyone")
    match name:
        case ContestName.ANSWERS_T5:
            config = with_t5(wanted.config, wanted.dtype)
            title = f"Whole answers, a T5-small-shaped evaluator ({wanted.dtype} here)"
            return _answers(title, config, wanted)
        case ContestName.ANSWERS_EMBEDDED:
            return _answers("Whole answers, the embedded evaluator", wanted.config, wanted)
        case ContestName.GENERATOR:
            return _generator(wanted)
        case ContestName.EVALUATOR:
            return _evaluator(wanted)


def _asked(wanted: _Wanted) -> list[Asked]:
    """The warm-up's questions first."""
    texts = sample_questions(_WARM_UP + wanted.works)
    return [Asked(text, wanted.max_new_tokens) for text in texts]


def _answers(title: str, config: Config, wanted: _Wanted) -> Result:
    asked = _asked(wanted)
    with answers.contestants(config, wanted.peers, wanted.at_once) as found:
        contest = Contest(found, wanted.tell)
        return held(
            title, "question", contest, asked[:_WARM_UP], asked[_WARM_UP:], wanted.rounds,
            lambda one: one.question,
            [f"{wanted.at_once} questions in flight; each with at most {wanted.max_new_tokens} new "
             "tokens, greedy. Retrieval, search, rules and prompts are the same code in all; the peers "
             "run Hugging Face's float32 forward one pair at a time, and one question at a time."],
        )  # fmt: skip


def _generator(wanted: _Wanted) -> Result:
    asked = generator.prompted(wanted.config, _asked(wanted))
    with generator.contestants(wanted.config, wanted.at_once) as found:
        contest = Contest(found, wanted.tell)
        return held(
            "The graph's own cost: instant evaluator, retriever and searcher, the real generator",
            "question", contest, asked[:_WARM_UP], asked[_WARM_UP:], wanted.rounds,
            lambda one: one.asked.question,
            [f"{wanted.at_once} questions in flight. Decisions are the number of prompt tokens: the "
             "prompts are the same. The bare generator gets them ready-made."],
        )  # fmt: skip


def _evaluator(wanted: _Wanted) -> Result:
    config = with_t5(wanted.config, wanted.dtype)
    ranked = [Ranked.made_up(number) for number in range(_WARM_UP + wanted.works)]
    with evaluator.contestants(config, wanted.at_once) as found:
        contest = Contest(found, wanted.tell)
        return held(
            f"The T5-small-shaped evaluator alone, as a reranking server ({wanted.dtype} here)",
            "request", contest, ranked[:_WARM_UP], ranked[_WARM_UP:], wanted.rounds,
            lambda one: one.question,
            [f"{wanted.at_once} requests in flight, ten passages each, float32 there. Decisions are the "
             "scores, equal within 1e-5 of a probability."],
        )  # fmt: skip
