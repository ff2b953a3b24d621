"""What CompactRAG costs and saves: counted, paired, broken even, drawn, resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compact.cost import Rows, measure
from benchmarks.compact.economics import Asked, BreakEven, Economics, asked_of
from benchmarks.datasets import Item
from crag_core.context import RequestContext
from crag_core.errors import PromptTooLong
from crag_core.types import Usage
from deployments.backends.knowledge.ledger import Ledger, PassageRead, tokens_spent


def asked(number: int, method: str, tokens: int, **changes: Any) -> Asked:
    fields: dict[str, Any] = {
        "id": f"q-{number}", "method": method, "prompt_tokens": tokens - 10, "completion_tokens": 10,
        "calls": 2, "attempts": 2, "seconds": tokens / 100, "exact_match": 0.0, "f1": 0.5, **changes,
    }  # fmt: skip
    return Asked(**fields)


def economics(offline_tokens: int | None = 9_000, **tokens: list[int]) -> Economics:
    rows = [
        asked(number, method, each)
        for method, values in tokens.items()
        for number, each in enumerate(values)
    ]
    return Economics.of(rows, offline_tokens)


def test_tokens_calls_and_seconds_are_means_over_questions() -> None:
    row = economics(compact=[100, 300], rag=[50, 50]).summary("compact")
    assert (row["tokens"], row["prompt_tokens"], row["completion_tokens"]) == (200.0, 190.0, 10.0)
    assert (row["calls"], row["calls_min_max"], row["seconds"], row["seconds_p50"]) == (2, [2, 2], 2, 1)
    assert (row["exact_match"], row["f1"], row["n"], row["failed"]) == (0.0, 0.5, 2, 0)


def test_a_failure_is_wrong_and_costs_nothing_that_can_be_compared() -> None:
    rows = [
        asked(0, "compact", 100), asked(1, "compact", 200, exact_match=1.0, f1=1.0),
        asked(0, "rag", 500), asked(1, "rag", 0, seconds=99.0, f1=0.0, failure="prompt_too_long"),
    ]  # fmt: skip
    found = Economics.of(rows, None)
    row = found.summary("rag")
    assert (row["n"], row["failed"], row["tokens"], row["f1"]) == (2, 1, 500.0, 0.25)
    assert (found.saved("rag", "tokens").mean, found.saved("rag", "tokens").n) == (400.0, 1)


@pytest.mark.parametrize(
    ("offline_tokens", "baseline", "even"),
    [
        (9_000, [400, 400, 400], BreakEven(30, 30, 30)),
        (9_001, [400, 400, 400], BreakEven(31, 31, 31)),
        (9_000, [100, 100, 100], BreakEven(None, None, None)),
        (9_000, [50, 50, 50], BreakEven(None, None, None)),
        (None, [400, 400, 400], None),
    ],
)
def test_a_base_breaks_even_where_both_have_cost_the_same(
    offline_tokens: int | None, baseline: list[int], even: BreakEven | None
) -> None:
    found = economics(offline_tokens, compact=[100, 100, 100], iter_retgen=baseline)
    assert found.break_even("iter_retgen") == even


def test_the_interval_of_the_break_even_is_that_of_the_tokens_saved() -> None:
    found = economics(compact=[100] * 20, ircot=[200 + 40 * n for n in range(20)])
    saved, even = found.saved("ircot", "tokens"), found.break_even("ircot")
    assert even is not None and even.low is not None and even.questions is not None
    assert even.high is not None and even.low < even.questions < even.high
    assert even.low == -(-9_000 // saved.high) and even.high == -(-9_000 // saved.low)


def test_the_report_compares_the_time_with_iter_retgen_and_the_curve_draws_every_method() -> None:
    found = economics(compact=[100, 200], iter_retgen=[400, 500], rag=[50, 60])
    assert "by iter_retgen takes +3.00 (+3.00 to +3.00) s more than by compact" in found.markdown()
    assert found.report()["more_than_compact"]["rag"]["tokens"]["mean"] == -95.0
    drawn = found.curve()
    assert all(f">{name}<" in drawn for name in ("compact", "iter_retgen", "rag"))


def test_a_run_without_an_answer_by_compact_is_told() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        economics(rag=[1])
    with pytest.raises(ValueError, match="no row of this benchmark"):
        asked_of({"id": "q-0"})


async def test_a_run_goes_on_where_it_stopped_and_the_methods_take_turns(tmp_path: Path) -> None:
    called: list[tuple[str, str]] = []

    def answering(method: str) -> Any:
        async def answer(ctx: RequestContext, question: str) -> tuple[str, Usage]:
            called.append((method, question))
            if (method, question) == ("rag", "b"):
                raise PromptTooLong("too long")
            return "Ohio", Usage(5, 2, 1, 1)

        return answer

    methods = {method: answering(method) for method in ("compact", "rag")}
    items = [Item(each, each, ("ohio",)) for each in "ab"]
    with Rows.opened(tmp_path, {"name": "x"}) as rows:
        await measure(methods, items[:1], rows)
    with Rows.opened(tmp_path, {"name": "x"}) as rows:
        await measure(methods, items, rows)
    assert called == [("compact", "a"), ("rag", "a"), ("rag", "b"), ("compact", "b")]
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [line["failure"] for line in lines] == [None, None, "prompt_too_long", None]
    assert lines[0]["exact_match"] == lines[0]["f1"] == 1.0 and lines[2]["f1"] == 0.0
    with pytest.raises(ValueError, match="other settings"), Rows.opened(tmp_path, {"name": "y"}):
        pass


def test_what_a_base_cost_stands_in_its_ledger(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    assert tokens_spent(file) is None
    with Ledger.opened(file, "reader") as ledger:
        assert tokens_spent(file) == 0
        ledger.record(PassageRead("a", [], None, 1, 100, 20))
        ledger.record(PassageRead("b", [], "no JSON", 2, 200, 5_000))
    assert tokens_spent(file) == 5_320
