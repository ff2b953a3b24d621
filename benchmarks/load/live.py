"""The run while it goes on: a table that is drawn anew, or a line now and then where nobody looks."""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchmarks.load.outcomes import Outcome, Record
from benchmarks.load.processes import Run
from benchmarks.load.summary import Times

_WINDOW_S = 5.0
_LINE_EVERY_S = 10.0
_MAX_WINDOW = 20_000
_GOOD, _BAD = "green", "red"


class LiveView:
    """Draws one run after the other."""

    def __init__(self, console: Console) -> None:
        """Draws on `console`, which is best the one of standard error."""
        self._console = console
        self._live: Live | None = None
        self._recent: deque[Record] = deque(maxlen=_MAX_WINDOW)
        self._outcomes: Counter[Outcome] = Counter()
        self._actions: Counter[str] = Counter()
        self._next_line_s = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw as long as this lasts."""
        self._recent.clear()
        self._outcomes.clear()
        self._actions.clear()
        self._next_line_s = time.monotonic() + _LINE_EVERY_S
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def watch(self, run: Run, fresh: Sequence[Record]) -> None:
        """Take in what is new, and draw."""
        self._recent.extend(fresh)
        self._outcomes.update(record.outcome for record in fresh if not record.is_background)
        self._actions.update(record.action for record in fresh if record.action)
        oldest_s = run.elapsed_s - _WINDOW_S
        while self._recent and self._recent[0].end_s < oldest_s:
            self._recent.popleft()
        if self._live is not None:
            self._live.update(self._drawn(run), refresh=True)
        elif time.monotonic() >= self._next_line_s:
            self._next_line_s += _LINE_EVERY_S
            self._console.print(self._line(run), highlight=False)

    def _line(self, run: Run) -> str:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in self._outcomes.most_common())
        return f"{run.elapsed_s:5.0f} s  {run.due} due, {run.in_flight} in flight; {outcomes or '-'}"

    def _drawn(self, run: Run) -> RenderableType:
        settings, elapsed_s = run.settings, run.elapsed_s
        state = "warming up" if elapsed_s < settings.warmup_s else "measuring"
        if elapsed_s > settings.total_s:
            state = "waiting for the last answers"
        head = Text(
            f"{settings.workload.name} {settings.arrivals.kind} {settings.offered_per_s:g}/s, {state}: "
            f"{min(elapsed_s, settings.total_s):.0f} of {settings.total_s:.0f} s, {run.due} due, "
            f"{run.in_flight} in flight"
        )
        bar = ProgressBar(total=settings.total_s, completed=min(elapsed_s, settings.total_s), width=60)
        line = Table.grid()  # by itself a bar does not end its line
        line.add_row(bar)
        return Group(head, line, self._times(), self._mix(run))

    def _times(self) -> Table:
        recent = [record for record in self._recent if not record.is_background]
        table = Table("last 5 s", "count", "p50 s", "p90 s", "p99 s", "max s", box=None, pad_edge=False)
        rows = {
            "latency": [r.latency_s for r in recent if r.outcome.is_answered],
            "first token": [s for r in recent if (s := r.first_token_s) is not None],
            "sent late": [s for r in recent if (s := r.lateness_s) is not None],
        }
        for name, seconds in rows.items():
            if times := Times.of(seconds):
                shown = (times.p50_s, times.p90_s, times.p99_s, times.max_s)
                table.add_row(name, str(times.count), *(f"{value:.3f}" for value in shown))
        return table

    def _mix(self, run: Run) -> Text:
        text = Text()
        for outcome, count in self._outcomes.most_common():
            text.append(f"{outcome} {count}  ", _GOOD if outcome.is_answered else _BAD)
        for action, count in self._actions.most_common(3):
            text.append(f"{action} {count}  ", "dim")
        text.append(f"sender {100 * run.busy:.0f} % busy", "dim")
        return text
