"""What stands in the repository is what the registry says now."""

import json
from typing import Any

import pytest

from deployments.observability.declaring import Dashboard, Panel
from deployments.observability.generate import generated
from deployments.observability.registry import panels
from tests.architecture.test_shape import ROOT

FILES = generated()


@pytest.mark.parametrize("path", FILES)
def test_a_generated_file_is_not_stale(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == FILES[path], "stale: make dashboards docs"


def test_no_generated_file_is_left_over() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "ops/grafana/dashboards").iterdir()}
    assert there == {path for path in FILES if path.startswith("ops/grafana/dashboards/")}


def dashboard_of(panel: Panel) -> Any:
    return next(
        dashboard
        for path, content in FILES.items()
        if path.endswith(".json")
        and (dashboard := json.loads(content))["title"] == f"crag-serve / {panel.dashboard}"
    )


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: f"{panel.dashboard}-{panel.title}")
def test_every_panel_stands_on_its_dashboard(panel: Panel) -> None:
    (drawn,) = (it for it in dashboard_of(panel)["panels"] if it["title"] == panel.title)
    assert [target["expr"] for target in drawn["targets"]] == [q.expression for q in panel.queries]
    assert drawn["fieldConfig"]["defaults"]["unit"] == panel.unit
    assert drawn["description"] or panel.title


def test_panels_do_not_overlap() -> None:
    for path, content in FILES.items():
        if path.endswith(".json"):
            places = [panel["gridPos"] for panel in json.loads(content)["panels"]]
            cells = [(place["x"], place["y"]) for place in places]
            assert len(set(cells)) == len(cells), path
            assert all(place["x"] + place["w"] <= 24 for place in places)


def test_there_is_a_dashboard_for_every_subject() -> None:
    assert len([path for path in FILES if path.endswith(".json")]) == len(Dashboard)
