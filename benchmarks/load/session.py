"""A run or a search from beginning to end: reach the server, send, sum up, judge."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from benchmarks.load.exposition import Exposition
from benchmarks.load.find_max import Interrupted, Maximum, Probe, allowed_failures, find_max
from benchmarks.load.live import LiveView
from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Ending, ProcessDied, Run, run_load
from benchmarks.load.report import Report, report
from benchmarks.load.settings import MAX_RATE_PER_S, LoadSettings
from benchmarks.load.summary import Summary, is_good, stage_means, summarise
from benchmarks.load.target import Target, wait_until_ready
from benchmarks.load.verdict import Exit, Verdict, not_reached, of_maximum, of_run


@dataclass(slots=True)
class Session:
    """What one command does to one server."""

    target: Target
    settings: LoadSettings
    console: Console
    wait_s: float = 10.0
    exposition: Exposition = field(default_factory=Exposition)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    records: list[Record] = field(default_factory=list)
    probes: int = 0

    def measure(self) -> Report:
        """One run."""
        if refusal := self._unreachable():
            return self._report(refusal)
        try:
            summary = self._run(self.settings)
        except ProcessDied as error:
            return self._report(Verdict(Exit.NOTHING_ANSWERED, str(error)))
        return self._report(of_run(summary, self.settings), summary)

    def search(self, repeats: int) -> Report:
        """Runs until the highest rate that keeps to the SLO is known; the last one's records stay."""
        if refusal := self._unreachable():
            return self._report(refusal)
        highest_per_s = MAX_RATE_PER_S / self.settings.workload.name.rate_factor
        try:
            maximum = find_max(
                self._probe,
                self.settings.arrivals.rate_per_s,
                highest_per_s,
                repeats,
                self.settings.slo.share,
            )
        except ProcessDied as error:
            return self._report(Verdict(Exit.NOTHING_ANSWERED, str(error)))
        at_it = [one.summary for one in maximum.probes if one.rate_per_s == maximum.rate_per_s]
        summary = at_it[-1] if at_it else None
        return self._report(of_maximum(maximum, self.settings), summary, maximum)

    def _unreachable(self) -> Verdict | None:
        try:
            with self.console.status(f"waiting for {self.target.url}"):
                self.target, reason = wait_until_ready(self.target, self.wait_s)
        except KeyboardInterrupt:
            return Verdict(Exit.INTERRUPTED, "interrupted before anything was sent")
        return None if reason is None else not_reached(f"{reason} (waited {self.wait_s:g} s)")

    def _run(self, settings: LoadSettings, *, allowed_failures: float | None = None) -> Summary:
        view, failures = LiveView(self.console), 0

        def watch(run: Run, fresh: Sequence[Record]) -> bool:
            nonlocal failures
            view.watch(run, fresh)
            self.exposition.watch(run, fresh)
            failures += sum(_is_failure(record, settings) for record in fresh)
            return allowed_failures is not None and failures > allowed_failures

        with view.shown():
            run = run_load(self.target, settings, self.run_id, watch)
        self.records = run.records
        return summarise(run)

    def _probe(self, rate_per_s: float, arrivals: int) -> Probe:
        self.probes += 1
        seed = self.settings.seed
        settings = self.settings.at_rate(rate_per_s, seed + arrivals, seed + self.probes)
        allowed = allowed_failures(settings.offered_per_s * settings.duration_s, settings.slo.share)
        summary = self._run(settings, allowed_failures=allowed)
        if summary.ending is Ending.BY_USER:
            raise Interrupted
        is_broken_off = summary.ending is not Ending.COMPLETE
        self.console.print(
            f"{rate_per_s:.3g} a second: {100 * summary.good_share:.1f} % good"
            f"{', broken off' if is_broken_off else ''}",
            highlight=False,
        )
        means_s = stage_means(self.records)
        return Probe(rate_per_s, summary.good, summary.judged, is_broken_off, summary, means_s)

    def _report(
        self, verdict: Verdict, summary: Summary | None = None, maximum: Maximum | None = None
    ) -> Report:
        return report(self.target.url, self.run_id, self.settings, verdict, summary, maximum)


def _is_failure(record: Record, settings: LoadSettings) -> bool:
    return (
        record.at_s >= settings.warmup_s
        and not record.is_background
        and record.outcome is not Outcome.HUNG_UP
        and not is_good(record, settings.slo)
    )
