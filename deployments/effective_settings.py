"""The settings in force: every one of them with its value, and where that comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from ray.serve.schema import ServeDeploySchema

from crag_core.errors import SettingsError
from deployments.app import API_KEYS, MEDIAWIKI_TOKEN, secret
from deployments.local import app_settings, load_config
from deployments.observability.redaction import redacted
from deployments.settings import AppSettings

DEFAULT = "default"
_APPLICATION = "applications.0"

Lines = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting by its path; `source` is `default`, a file with its line, or the environment."""

    path: str
    value: Any
    source: str


def effective_settings(path: Path) -> list[EffectiveSetting]:
    """What a Serve config file amounts to; raises SettingsError when it is not valid."""
    config = load_config(path)
    settings = app_settings(config)
    lines = _lines_of(path)
    name = str(path)
    return [
        *_walked("http_options", config.http_options, lines, "http_options", name),
        *_walked("", settings, lines, f"{_APPLICATION}.args", name),
        *_thresholds(settings),
        *_placement(config, lines, name),
        *_environment(config, lines, name),
    ]


def _walked(
    shown_at: str, value: Any, lines: Lines, stands_at: str, file: str
) -> Iterator[EffectiveSetting]:
    if isinstance(value, BaseModel):
        for field in type(value).model_fields:
            below = f"{shown_at}.{field}" if shown_at else field
            yield from _walked(below, getattr(value, field), lines, f"{stands_at}.{field}", file)
        return
    source = f"{file}:{lines[stands_at]}" if stands_at in lines else DEFAULT
    yield EffectiveSetting(shown_at, _shown(shown_at, value), source)


def _thresholds(settings: AppSettings) -> Iterator[EffectiveSetting]:
    """Those of the evaluator's manifest, which hold where none are set."""
    if settings.crag.thresholds is not None:
        return
    # imported here: whoever asks for settings need not have the models' libraries
    from deployments.backends.evaluators.evaluator_manifest import load_manifest
    from deployments.backends.model_folder import model_folder

    try:
        folder = model_folder(settings.evaluator.model)
        thresholds = load_manifest(folder).thresholds
    except SettingsError as error:
        yield EffectiveSetting("evaluator.thresholds", None, f"unknown here: {error}")
        return
    for name in type(thresholds).model_fields:
        value = getattr(thresholds, name)
        yield EffectiveSetting(f"evaluator.thresholds.{name}", value, f"{folder}/evaluator.json")


def _placement(config: ServeDeploySchema, lines: Lines, file: str) -> Iterator[EffectiveSetting]:
    """What the file says of each deployment; Serve has defaults for the rest."""
    for number, deployment in enumerate(config.applications[0].deployments):
        at = f"{_APPLICATION}.deployments.{number}"
        given = deployment.model_dump(mode="json", exclude_unset=True, exclude={"name"})
        for option, value in given.items():
            yield EffectiveSetting(
                f"deployments.{deployment.name}.{option}", value, f"{file}:{lines[f'{at}.{option}']}"
            )


def _environment(config: ServeDeploySchema, lines: Lines, file: str) -> Iterator[EffectiveSetting]:
    """The replicas' variables, and which of the secrets are there, never what they are."""
    env = config.applications[0].runtime_env.get("env_vars", {})
    for name, value in env.items():
        line = lines[f"{_APPLICATION}.runtime_env.env_vars.{name}"]
        yield EffectiveSetting(f"environment.{name}", _shown(name, value), f"{file}:{line}")
    for name in (API_KEYS, MEDIAWIKI_TOKEN):
        is_set = secret(name) is not None
        yield EffectiveSetting(f"environment.{name}", "set" if is_set else "not set", "environment")


def _shown(name: str, value: Any) -> Any:
    """The value, unless its name or its form says that it is a secret."""
    return redacted(f"{name}={value}").partition("=")[2] if isinstance(value, str) else value


def _lines_of(path: Path) -> Lines:
    """The line of each key of a YAML file, by its dotted path."""
    loader = yaml.SafeLoader(path.read_text("utf-8"))
    lines: dict[str, int] = {}

    def note(node: yaml.Node, at: str) -> None:
        if isinstance(node, yaml.MappingNode):
            loader.flatten_mapping(node)  # `<<` brings keys from elsewhere
            for key, value in node.value:
                below = f"{at}.{key.value}".removeprefix(".")
                lines[below] = key.start_mark.line + 1
                note(value, below)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                note(item, f"{at}.{number}")

    root = loader.get_single_node()
    if root is not None:
        note(root, "")
    return lines
