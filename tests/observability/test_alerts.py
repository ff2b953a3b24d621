"""Every alert fires when it should, and not when it should not: by promtool, over made-up series."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.observability.alert_rules import runbook_of
from deployments.observability.declaring import Alert
from deployments.observability.generate import generated
from deployments.observability.registry import alerts, panels
from deployments.settings import AppSettings
from tests.architecture.test_shape import ROOT

ALERTS = {alert.name: alert for alert in alerts()}
ANSWERS = "ray_crag_answers_total"
SECONDS = "ray_crag_answer_seconds"
WAIT = "ray_crag_wait_seconds_bucket"
LAG = "ray_crag_event_loop_lag_seconds_bucket"
REFUSED = "ray_crag_search_refused_total"
ASKED = 'ray_crag_search_cache_total{host="w",use="miss"}'
TURNED_AWAY = "ray_crag_refused_total"
STARTED = "ray_crag_started_total"
SERVE_STATUS = "ray_serve_deployment_status"
OK = f'{ANSWERS}{{outcome="ok",action="correct"}}'
INCORRECT = f'{ANSWERS}{{outcome="ok",action="incorrect"}}'
FAILED = f'{ANSWERS}{{outcome="stage_timed_out",action="none"}}'
SHED = f'{ANSWERS}{{outcome="overloaded",action="none"}}'


@dataclass(frozen=True)
class Case:
    """Series, in promtool's notation, under which an alert is up after so long, and under which not."""

    fires: Mapping[str, str]
    stays_quiet: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    after: str = "60m"
    interval: str = "1m"


def late(in_time_per_min: int) -> Mapping[str, str]:
    """So many of 10 answers a minute in time."""
    return {
        f'{SECONDS}_bucket{{outcome="ok",le="10.0"}}': f"0+{in_time_per_min}x500",
        f'{SECONDS}_count{{outcome="ok"}}': "0+10x500",
    }


def slow(name: str, label: str, quick: int) -> Mapping[str, str]:
    """So many of 10 observations a minute in the quick bucket, the rest in the slow one."""
    return {
        f'{name}{{{label},le="0.1"}}': f"0+{quick}x90",
        f'{name}{{{label},le="10.0"}}': "0+10x90",
        f'{name}{{{label},le="+Inf"}}': "0+10x90",
    }


def workers(count: int, lives_min: int) -> Mapping[str, str]:
    """One process after another, each alive for so long."""
    return {
        f'{STARTED}{{process="Generator",WorkerId="{number}"}}': " ".join(
            ["_"] * (number * lives_min) + ["1"] * lives_min + ["stale"]
        )
        for number in range(count)
    }


CASES: Mapping[str, Case] = {
    "ActionMixDrifted": Case(
        fires={OK: "0+90x1007 0+50x100", INCORRECT: "0+10x1007 0+50x100"},
        stays_quiet={OK: "0+90x1107", INCORRECT: "0+12x1107"},
        after="10770m",
        interval="10m",
    ),
    "FailuresBurnFast": Case(
        fires={OK: "0+90x90", FAILED: "0+10x90"},
        stays_quiet={OK: "0+99x90", FAILED: "0+1x90", SHED: "0+500x90"},
    ),
    "FailuresBurnSlowly": Case(
        fires={OK: "0+96x500", FAILED: "0+4x500"},
        stays_quiet={OK: "0+98x500", FAILED: "0+2x500"},
        after="420m",
    ),
    "LatenessBurnsFast": Case(fires=late(2), stays_quiet=late(5)),
    "LatenessBurnsSlowly": Case(fires=late(6), stays_quiet=late(8), after="420m"),
    "QueueIsOld": Case(
        fires=slow(WAIT, 'stage="evaluate"', 5),
        stays_quiet=slow(WAIT, 'stage="evaluate"', 10),
        labels={"stage": "evaluate"},
    ),
    "AnswersDegraded": Case(
        fires={OK: "0+10x90", 'ray_crag_degraded_answers_total{pipeline="crag"}': "0+3x90"},
        stays_quiet={OK: "0+10x90", 'ray_crag_degraded_answers_total{pipeline="crag"}': "0+2x90"},
    ),
    "EvaluatorPairsFail": Case(
        fires={"ray_crag_evaluator_failed_pairs_total": "0+1x90"},
        stays_quiet={"ray_crag_evaluator_failed_pairs_total": "0x30 1x60"},
    ),
    "EnginePreempts": Case(
        fires={"ray_vllm_num_preemptions_total": "0+12x90"},
        stays_quiet={"ray_vllm_num_preemptions_total": "0+3x90"},
    ),
    "WikiBlocksUs": Case(
        fires={'ray_crag_search_requests_total{host="w",outcome="blocked"}': "0x55 1x30"},
        stays_quiet={'ray_crag_search_requests_total{host="w",outcome="throttled"}': "0+9x90"},
        labels={"host": "w"},
    ),
    "SearchBudgetSpent": Case(
        fires={f'{REFUSED}{{host="w",reason="throttled"}}': "0+10x90", ASKED: "0+90x90"},
        stays_quiet={
            f'{REFUSED}{{host="w",reason="throttled"}}': "0+1x90",
            f'{REFUSED}{{host="w",reason="timed_out"}}': "0+30x90",
            ASKED: "0+90x90",
        },
        labels={"host": "w"},
    ),
    "SearchCircuitOpen": Case(
        fires={
            'ray_crag_search_circuit{host="w",state="open"}': "0x40 1x50",
            'ray_crag_search_circuit{host="w",state="closed"}': "1x40 0x50",
        },
        stays_quiet={
            'ray_crag_search_circuit{host="w",state="open"}': "0x57 1x2 0x30",
            'ray_crag_search_circuit{host="w",state="closed"}': "1x57 0x2 1x30",
        },
        labels={"host": "w"},
    ),
    "EventLoopLags": Case(
        fires=slow(LAG, 'process="Ingress"', 5),
        stays_quiet=slow(LAG, 'process="Ingress"', 10),
        labels={"process": "Ingress"},
    ),
    "EngineRestarts": Case(fires=workers(13, 5), stays_quiet=workers(3, 30)),
    "TooManySeries": Case(
        fires={'ray_crag_series{process="Ingress",WorkerId="a"}': "1001x90"},
        stays_quiet={
            f'ray_crag_series{{process="Ingress",WorkerId="{worker}"}}': "600x90" for worker in "ab"
        },
        labels={"process": "Ingress"},
    ),
    "TurnsManyAway": Case(
        fires={OK: "0+7x90", f'{TURNED_AWAY}{{why="wait"}}': "0+3x90", SHED: "0+3x90"},
        stays_quiet={OK: "0+9x90", f'{TURNED_AWAY}{{why="wait"}}': "0+1x90", SHED: "0+1x90"},
    ),
    "ScaleUpBlocked": Case(
        fires={f'{SERVE_STATUS}{{deployment="Evaluator"}}': "6x40 4x50"},
        stays_quiet={f'{SERVE_STATUS}{{deployment="Evaluator"}}': "6x55 4x3 6x50"},
        labels={"deployment": "Evaluator"},
    ),
}


def test_every_alert_has_its_case() -> None:
    assert CASES.keys() == ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_fires_and_stays_quiet(promtool: str, tmp_path: Path, name: str) -> None:
    rules, file = tmp_path / "alerts.yml", tmp_path / "test.yml"
    rules.write_text(generated()["ops/prometheus/alerts.yml"], "utf-8")
    alert, case = ALERTS[name], CASES[name]
    tests = [
        checked(alert, case, case.fires, [raised(alert, case)]),
        checked(alert, case, case.stays_quiet, []),
    ]
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(rules)], "evaluation_interval": case.interval, "tests": tests}
        ),
        "utf-8",
    )
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS.values(), ids=lambda alert: alert.name)
def test_an_alert_has_a_runbook_that_says_what_to_do(alert: Alert) -> None:
    page = (ROOT / runbook_of(alert)).read_text("utf-8")
    assert page.startswith(f"# {alert.name}\n")
    assert re.findall("^## (.*)$", page, re.MULTILINE) == ["What it means", "Look at", "What to do"]


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/runbooks/*.md")), ids=lambda page: page.stem)
def test_a_runbook_names_panels_settings_and_alerts_that_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    named = {re.sub(r"\s+", " ", name) for name in re.findall(r"(?<![*\w])\*([A-Z][^*]+)\*(?!\*)", text)}
    assert named <= {panel.title for panel in panels()}
    sections = "|".join(AppSettings.model_fields)
    for path in re.findall(rf"`((?:{sections})(?:\.\w+)+)`", text):
        assert is_setting(AppSettings, path.split(".")), path
    assert page.stem in ALERTS


def is_setting(model: Any, path: list[str]) -> bool:
    """Whether a settings class, or what may stand in for null in it, has the field at the path."""
    if not path:
        return True
    kinds = [model, *getattr(model, "__args__", ())]
    fields = [
        kind.model_fields[path[0]] for kind in kinds if path[0] in getattr(kind, "model_fields", {})
    ]
    return any(is_setting(field.annotation, path[1:]) for field in fields)


def test_prometheus_takes_the_config_and_the_rules(promtool: str) -> None:
    config = subprocess.run(
        [promtool, "check", "config", ROOT / "ops/prometheus/prometheus.yml"],
        capture_output=True,
        text=True,
    )
    assert config.returncode == 0, config.stdout + config.stderr


def checked(alert: Alert, case: Case, series: Mapping[str, str], expected: list[Any]) -> Any:
    return {
        "interval": case.interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": case.after, "alertname": alert.name, "exp_alerts": expected}],
    }


def raised(alert: Alert, case: Case) -> Any:
    def filled(text: str) -> str:
        return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: case.labels[label[1]], text)

    return {
        "exp_labels": {"severity": str(alert.severity), **case.labels},
        "exp_annotations": {"summary": filled(alert.summary), "runbook": runbook_of(alert)},
    }
