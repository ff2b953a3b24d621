"""Grafana's dashboards, built from the registry: `make dashboards` writes `ops/grafana`."""

import re
from collections.abc import Iterator

from grafana_foundation_sdk.builders import common, prometheus, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef

from deployments.observability.declaring import Dashboard, Panel, Unit
from deployments.observability.registry import panels

_DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 8, 8
"""Of a panel, in Grafana's 24 columns and its rows."""


def dashboards() -> Iterator[tuple[str, str]]:
    """The name of each dashboard's file, and its JSON."""
    for title in Dashboard:
        shown = [panel for panel in panels() if panel.dashboard is title]
        dashboard = _dashboard(title, shown).build()
        yield f"{_slug(title)}.json", JSONEncoder(sort_keys=True, indent=2).encode(dashboard) + "\n"


def _dashboard(title: Dashboard, shown: list[Panel]) -> build.Dashboard:
    dashboard = (
        build.Dashboard(f"crag-serve / {title}")
        .uid(f"crag-{_slug(title)}")
        .tags(["crag-serve"])
        .description("Generated from the registry of metrics by `make dashboards`.")
        .readonly()
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(build.DashboardLink("Dashboards").tags(["crag-serve"]).as_dropdown(True).keep_time(True))
        .with_variable(build.DatasourceVariable("datasource").type("prometheus").label("Source"))
    )
    for panel in shown:
        dashboard.with_panel(_drawn(panel))
    return dashboard


def _drawn(panel: Panel) -> timeseries.Panel:
    drawn = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.help)
        .datasource(_DATASOURCE)
        .span(_WIDTH)
        .height(_HEIGHT)
        .unit(panel.unit or Unit.COUNT)
        .min(0)
        .fill_opacity(30 if panel.stacked else 8)
        .no_value(panel.at_rest or "no data")
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if panel.stacked:
        drawn.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for number, query in enumerate(panel.queries):
        drawn.with_target(
            prometheus.Dataquery()
            .expr(query.expression)
            .legend_format(query.legend)
            .ref_id(chr(ord("A") + number))
            .range()
        )
    return drawn


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
