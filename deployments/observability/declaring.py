"""What a declaration of a metric says: enough to export it, to draw it, and to alert on it.

A query may say METRIC for the exported name of the metric that it stands with.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

NONE = "none"
"""The value of a label that does not apply."""

OTHER = "other"
"""What every label value becomes that was not declared."""

DEFAULT_MAX_SERIES = 200
"""Series that one process exports of one metric at most; further label values become `other`."""


class Kind(StrEnum):
    """Prometheus' types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What a metric counts or measures, by its name in Grafana."""

    SECONDS = "s"
    BYTES = "bytes"
    RATIO = "percentunit"
    PERCENT = "percent"
    COUNT = "short"
    PER_SECOND = "ops"
    YES_OR_NO = "bool"


class Origin(StrEnum):
    """Who exports a metric, by the prefix that its name has on the way."""

    APPLICATION = "ray_"
    """This project, through Ray."""
    COMMAND = ""
    """This project, where there is no Ray, through prometheus-client."""
    FOREIGN = "ray"
    """Ray or vLLM; declared for the panels and alerts over it, which a rename would break."""


class Dashboard(StrEnum):
    """The dashboards, by title."""

    OVERVIEW = "Overview"
    EVALUATOR = "Evaluator"
    GENERATOR = "Generator"
    SEARCH = "Search"
    COMPACT = "CompactRAG"
    CLUSTER = "Cluster"
    LOAD = "Load generator"


class Across(StrEnum):
    """How a gauge of many processes becomes one number."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AVG = "avg"


class Severity(StrEnum):
    """Who has to see to an alert: somebody now, or somebody tomorrow."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Label:
    """A label that takes the values listed, or else the first `at_most` different ones."""

    name: str
    values: frozenset[str] = frozenset()
    at_most: int = 0

    @classmethod
    def of(cls, name: str, values: Iterable[str]) -> Self:
        """A label with exactly these values, such as those of an enumeration."""
        return cls(name, frozenset(map(str, values)))


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and the legend of its lines."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawing of one metric, or of several together.

    Without `queries` it shows the metric it stands with, `by` these labels: a counter's rate, a gauge,
    a histogram's quantiles. `at_rest` says why it may be empty although nothing is wrong.
    """

    dashboard: Dashboard
    title: str
    by: tuple[str, ...] = ()
    queries: tuple[Query, ...] = ()
    unit: Unit | None = None
    stacked: bool = False
    at_rest: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """An expression that Prometheus evaluates all the time, under a name of its own."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that somebody must see to; `docs/runbooks/NAME.md` says how.

    `when` is PromQL; it must hold for `for_minutes`.
    """

    name: str
    when: str
    for_minutes: int
    severity: Severity
    summary: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Metric(ABC):
    """One metric, declared once; `name` without what the exporter adds to it."""

    name: str
    help: str
    unit: Unit = Unit.COUNT
    labels: tuple[Label, ...] = ()
    panel: Panel | None = None
    alert: Alert | None = None
    origin: Origin = Origin.APPLICATION
    max_series: int = DEFAULT_MAX_SERIES
    label_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Fills in `label_names`, and this metric's name for METRIC in its queries."""
        names = tuple(label.name for label in self.labels)
        object.__setattr__(self, "label_names", names)
        if self.panel is not None:
            queries = self.panel.queries or tuple(self._drawn(self.panel.by))
            unit = self.panel.unit or self._drawn_unit
            panel = replace(self.panel, queries=tuple(map(self._named, queries)), unit=unit)
            object.__setattr__(self, "panel", replace(panel, help=panel.help or self.help))
        if self.alert is not None:
            when = self.alert.when.replace("METRIC", self.exported)
            object.__setattr__(self, "alert", replace(self.alert, when=when))

    kind = Kind.GAUGE

    @property
    def exported(self) -> str:
        """The name in queries; a histogram's without `_bucket`, `_sum` and `_count`."""
        prefix = "ray_" if self.origin is Origin.FOREIGN else self.origin.value
        return prefix + self.name + ("_total" if self.kind is Kind.COUNTER else "")

    @property
    def _drawn_unit(self) -> Unit:
        return self.unit

    @abstractmethod
    def _drawn(self, by: tuple[str, ...]) -> Iterable[Query]: ...

    def _named(self, query: Query) -> Query:
        return replace(query, expression=query.expression.replace("METRIC", self.exported))


@dataclass(frozen=True, eq=False, kw_only=True)
class Counter(Metric):
    """Rises for ever."""

    kind = Kind.COUNTER

    @property
    def _drawn_unit(self) -> Unit:
        return Unit.RATIO if self.unit is Unit.SECONDS else Unit.PER_SECOND

    def _drawn(self, by: tuple[str, ...]) -> Iterable[Query]:
        yield Query(f"{grouped('sum', by)} (rate(METRIC[$__rate_interval]))", legend(by))


@dataclass(frozen=True, eq=False, kw_only=True)
class Gauge(Metric):
    """The value of the moment; `across` says how those of many processes become one."""

    kind = Kind.GAUGE
    across: Across = Across.SUM

    def _drawn(self, by: tuple[str, ...]) -> Iterable[Query]:
        yield Query(f"{grouped(self.across, by)} (METRIC)", legend(by))


@dataclass(frozen=True, eq=False, kw_only=True)
class Histogram(Metric):
    """Observations by size; `buckets` are upper bounds, all of them above 0, as Ray demands."""

    kind = Kind.HISTOGRAM
    buckets: tuple[float, ...] = ()
    max_series: int = 40

    def _drawn(self, by: tuple[str, ...]) -> Iterable[Query]:
        rates = f"{grouped('sum', ('le', *by))} (rate(METRIC_bucket[$__rate_interval]))"
        for quantile in (0.5, 0.9, 0.99):
            of = f"p{quantile * 100:.0f} {legend(by)}".rstrip()
            yield Query(f"histogram_quantile({quantile}, {rates})", of)


def grouped(aggregation: str, by: Iterable[str]) -> str:
    """`sum by (a, b)`, or `sum` alone."""
    names = ", ".join(by)
    return f"{aggregation} by ({names})" if names else aggregation


def legend(by: Iterable[str]) -> str:
    """Grafana's legend for lines by these labels."""
    return " ".join("{{" + name + "}}" for name in by)


def share(part: str, whole: str, by: tuple[str, ...] = (), window: str = "$__rate_interval") -> str:
    """The rate of one counter by that of another; no line where the whole stands still."""
    over = grouped("sum", by)
    return f"{over} (rate({part}[{window}])) / ({over} (rate({whole}[{window}])) > 0)"


def mean(histogram: Metric, by: tuple[str, ...] = (), window: str = "$__rate_interval") -> str:
    """The mean of a histogram's observations."""
    return share(f"{histogram.exported}_sum", f"{histogram.exported}_count", by, window)
