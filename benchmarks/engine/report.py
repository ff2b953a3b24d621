"""The engine's measurement as Markdown."""

from benchmarks.engine.contest import GEMM
from benchmarks.engine.contestants import LITSERVE, OURS, OURS_SAFE, PAPERS, PEERS
from benchmarks.engine.decisions import MIN_NEAR_SHARE
from benchmarks.engine.measure import Result, Row
from benchmarks.engine.pairs import LONGEST
from benchmarks.report import table

_HEADER = ("scorer", "pairs/s", "pairs/core-s", "x papers", "x papers (CPU)", "GFLOP/s",
           "GFLOP/core-s", "largest error")  # fmt: skip


def markdown(title: str, result: Result) -> str:
    """Rates beside the papers' loop, ours against each peer and the best, and what was checked."""
    by_name = {row.name: row for row in result.rows}
    rows = (_line(row, by_name[PAPERS]) for row in result.rows)
    findings = [
        f"{result.pairs} pairs, {result.tokens} tokens, {result.threads} threads, medians of "
        f"{result.rounds} interleaved rounds",
        *_against_peers(by_name),
        f"share of the measured product rate: {_ratios(by_name[OURS], by_name[GEMM], 'gflop')}",
        f"best batch size of the padded forward, in the order of arrival: {result.best_batch_size}",
        _litserve(result.litserve_http_share),
        *_decisions(result),
        f"largest float64 difference to Hugging Face, lengths 1 to {LONGEST}: {result.fp64_error:.1e}",
        f"scores {'right' if result.is_right else 'WRONG'}",
    ]
    listed = "\n".join(f"- {finding}" for finding in findings)
    return f"## T5 engine: {title}\n\n{table(_HEADER, rows)}\n\n{listed}"


def _line(row: Row, papers: Row) -> list[str]:
    flops = [f"{row.gflop_per_s:.0f}", f"{row.gflop_per_core_s:.0f}"]
    if row.name == GEMM:
        return [row.name, "-", "-", "-", "-", *flops, "-"]
    return [
        row.name,
        f"{row.pairs_per_s:.2f}",
        f"{row.pairs_per_core_s:.2f}",
        f"{row.pairs_per_s / papers.pairs_per_s:.2f}",
        f"{row.pairs_per_core_s / papers.pairs_per_core_s:.2f}",
        *flops,
        "-" if row.error is None else f"{row.error:.1e}",
    ]


def _against_peers(by_name: dict[str, Row]) -> list[str]:
    peers = [by_name[name] for name in PEERS if name in by_name]
    lines = [f"{OURS} against {peer.name}: {_ratios(by_name[OURS], peer)}" for peer in peers]
    on_clock = max(peers, key=lambda peer: peer.pairs_per_s)
    by_cpu = max(peers, key=lambda peer: peer.pairs_per_core_s)
    return [
        *lines,
        *(
            f"against the best peer: {name} {ours.pairs_per_s / on_clock.pairs_per_s:.2f} on the clock "
            f"({on_clock.name}), {ours.pairs_per_core_s / by_cpu.pairs_per_core_s:.2f} by CPU time "
            f"({by_cpu.name})"
            for name in (OURS, OURS_SAFE)
            if (ours := by_name.get(name))
        ),
    ]


def _ratios(ours: Row, other: Row, of: str = "pairs") -> str:
    clock, cpu = (
        (ours.gflop_per_s / other.gflop_per_s, ours.gflop_per_core_s / other.gflop_per_core_s)
        if of == "gflop"
        else (ours.pairs_per_s / other.pairs_per_s, ours.pairs_per_core_s / other.pairs_per_core_s)
    )
    return f"{clock:.2f} on the clock, {cpu:.2f} by CPU time"


def _litserve(http_share: float | None) -> str:
    if http_share is None:
        return f"{LITSERVE}: not run"
    return f"LitServe's CPU time outside the process of its model, its client included: {http_share:.1%}"


def _decisions(result: Result) -> list[str]:
    decided = result.decisions
    if decided is None:
        return ["decisions: float32's own, no second look is needed"]
    return [
        f"{decided.pairs} decisions at {len(decided.thresholds)} thresholds: {decided.agreement:.2%} as "
        f"in float32, {decided.agreement_without_safety:.2%} without safety",
        f"epsilon {decided.epsilon:.1e}, twice the largest error on other pairs; largest error "
        f"{decided.largest_error:.1e}",
        f"within epsilon of a threshold, and computed again: {decided.near_share:.1%} "
        f"(at least {MIN_NEAR_SHARE:.0%} are needed)",
    ]
