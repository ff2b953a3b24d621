"""Config files: each is a Serve config and builds the application, without a model being opened."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr, ValidationError
from ray.serve import Application
from ray.serve.schema import ServeDeploySchema

from crag_core.errors import SettingsError
from deployments.app import MEDIAWIKI_TOKEN, build_app
from deployments.local import app_settings, load_config, refuse_port_in_use
from deployments.shared_actors import SearchBudgetClient

ROOT = Path(__file__).parents[2]
CONFIGS = sorted([ROOT / "serve_config.yaml", *(ROOT / "configs").glob("*.yaml")])
DEPLOYMENTS = {"Ingress", "CragGraph", "Retriever", "Evaluator", "Generator", "Searcher"}
COMPACT = {"CompactGraph", "AtomicQARetriever", "HopReader"}


def args_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    args: dict[str, Any] = content["applications"][0]["args"]
    return args


def parts_of(part: Any) -> Iterator[Any]:
    """Whatever an application's deployments were bound to, at any depth."""
    yield part
    inner: Any = ()
    if isinstance(part, Application):
        inner = [*part._bound_deployment.init_args, *part._bound_deployment.init_kwargs.values()]
    elif isinstance(part, list | tuple):
        inner = part
    elif isinstance(part, dict):
        inner = part.values()
    elif is_dataclass(part) or isinstance(part, SearchBudgetClient):
        inner = vars(part).values()
    for each in inner:
        yield from parts_of(each)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_places_every_deployment_and_builds_the_application(path: Path) -> None:
    config = load_config(path)
    (application,) = config.applications
    assert application.import_path == "deployments.app:build_app"
    settings = app_settings(config)
    expected = DEPLOYMENTS | (COMPACT if settings.compact else set())
    expected |= {"ExplainGraph"} if settings.explain else set()
    assert {deployment.name for deployment in application.deployments} == expected
    build_app(args_of(path))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_default_deadline_fits_below_the_proxys(path: Path) -> None:
    config = load_config(path)
    proxy_s = config.http_options.request_timeout_s
    assert proxy_s is not None and app_settings(config).api.max_timeout_s < proxy_s


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_refusal_finds_a_free_place_in_an_ingress(path: Path) -> None:
    """What waits in front of the ingresses is known to nobody, and refused by nobody."""
    config = load_config(path)
    (ingress,) = (d for d in config.applications[0].deployments if d.name == "Ingress")
    scaling = ingress.autoscaling_config
    replicas = scaling["min_replicas"] if isinstance(scaling, dict) else ingress.num_replicas
    assert app_settings(config).admission.max_in_flight < ingress.max_ongoing_requests * replicas


def test_a_misspelt_setting_is_named() -> None:
    args = args_of(ROOT / "configs/embedded.yaml")
    args["generator"]["modell"] = args["generator"].pop("model")
    with pytest.raises(ValidationError, match=r"generator.modell"):
        build_app(args)


def test_the_wikis_token_comes_from_the_environment_and_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MEDIAWIKI_TOKEN, "s3cret")
    args = args_of(ROOT / "serve_config.yaml")
    (token,) = {part for part in parts_of(build_app(args)) if isinstance(part, SecretStr)}
    assert token.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(token)
    args["searcher"]["mediawiki"]["token"] = "s3cret"
    with pytest.raises(ValidationError, match="searcher.mediawiki.token"):
        build_app(args)


def test_swapped_thresholds_are_refused_with_both_values() -> None:
    args = args_of(ROOT / "configs/embedded.yaml")
    args["crag"] = {"thresholds": {"upper": -0.995, "lower": 0.592}}
    with pytest.raises(
        ValidationError, match=r"upper threshold -0\.995 is below lower threshold 0\.592"
    ):
        build_app(args)


def test_parity_configs_hold_the_papers_values() -> None:
    original = app_settings(load_config(ROOT / "configs/parity-original.yaml")).crag
    reproduction = app_settings(load_config(ROOT / "configs/parity-reproduction.yaml")).crag
    for crag in (original, reproduction):
        assert crag.thresholds is not None
        assert (crag.thresholds.upper, crag.thresholds.lower) == (0.592, -0.995)
    assert (original.rag_documents, reproduction.rag_documents) == (10, 1)
    assert reproduction.refinement.strip_min_score == -0.5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("applications: [", "is not YAML"),
        ("applications: 3", "is not a Serve config file"),
        ("[]", "is not a Serve config file"),
    ],
)
def test_a_broken_config_is_told_in_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content, "utf-8")
    with pytest.raises(SettingsError, match=words):
        load_config(path)


def test_a_missing_config_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read config .*nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_a_port_in_use_is_told_with_what_to_do() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsError, match=r"cannot be used .* another with --port"):
            refuse_port_in_use("127.0.0.1", taken.getsockname()[1])


def test_the_port_of_a_config_can_be_replaced() -> None:
    config: ServeDeploySchema = load_config(ROOT / "configs/embedded.yaml", port=8123)
    assert config.http_options.port == 8123
