import json
from pathlib import Path

import pytest
import yaml

from deployments.app import API_KEYS
from deployments.effective_settings import effective_settings
from deployments.settings import AppSettings
from tests.deployments.test_cli import ROOT, config_with, run

PRODUCTION = ROOT / "serve_config.yaml"


def line_of(text: str, path: Path) -> int:
    return next(n for n, line in enumerate(path.read_text("utf-8").splitlines(), 1) if text in line)


def test_each_setting_stands_once_with_its_value_and_its_place() -> None:
    settings = {setting.path: setting for setting in effective_settings(PRODUCTION)}
    assert len(settings) == len(effective_settings(PRODUCTION))
    port = settings["http_options.port"]
    assert (port.value, port.source) == (8000, f"{PRODUCTION}:{line_of('port: 8000', PRODUCTION)}")
    dtype = settings["generator.dtype"]
    assert dtype.source == f"{PRODUCTION}:{line_of('dtype: bfloat16', PRODUCTION)}"
    assert settings["crag.retrieve_limit"].source == "default"
    assert settings["deployments.Generator.max_ongoing_requests"].value == 256


def test_no_setting_is_left_out() -> None:
    shown = {setting.path for setting in effective_settings(PRODUCTION)}

    def paths(value: object, at: str) -> set[str]:
        if isinstance(value, dict) and value:
            return {path for name, below in value.items() for path in paths(below, f"{at}.{name}")}
        return {at.removeprefix(".")}

    args = yaml.safe_load(PRODUCTION.read_text("utf-8"))["applications"][0]["args"]
    assert paths(AppSettings.model_validate(args).model_dump(), "") <= shown


def test_thresholds_that_are_not_set_come_from_the_evaluators_manifest(tmp_path: Path) -> None:
    settings = {setting.path: setting for setting in effective_settings(config_with(tmp_path))}
    upper = settings["evaluator.thresholds.upper"]
    assert isinstance(upper.value, float) and upper.source.endswith("minilm-head/evaluator.json")


def test_secrets_are_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEYS, "do-not-show")
    config = config_with(tmp_path)
    content = yaml.safe_load(config.read_text("utf-8"))
    content["applications"][0]["args"]["retriever"]["index"] = "s3://user:do-not-show@bucket/index"
    content["applications"][0]["runtime_env"]["env_vars"]["AWS_SECRET_ACCESS_KEY"] = "do-not-show"
    config.write_text(yaml.safe_dump(content), "utf-8")
    result = run("config", "show", config, "--json")
    assert "do-not-show" not in result.stdout
    shown = {setting["path"]: setting["value"] for setting in json.loads(result.stdout)}
    assert shown[f"environment.{API_KEYS}"] == "set"
    assert shown["retriever.index"] == "s3://[redacted]@bucket/index"


def test_the_list_can_be_searched_by_line(tmp_path: Path) -> None:
    lines = run("config", "show", config_with(tmp_path)).stdout.splitlines()
    (found,) = [line for line in lines if line.startswith("api.max_body_s ")]
    assert found.split() == ["api.max_body_s", "30.0", "default"]


def test_a_config_that_is_not_valid_is_told_in_a_sentence(tmp_path: Path) -> None:
    result = run("config", "show", config_with(tmp_path, generator={"modell": "x"}))
    assert result.exit_code == 2 and "modell" in result.stderr
