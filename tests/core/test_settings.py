import math
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from crag_core.settings import (
    ActionThresholds,
    AnswerOptions,
    CragSettings,
    NoEvidence,
    RecomposeOrder,
    SamplingOptions,
    Settings,
)
from deployments.settings import AppSettings, MediaWikiSettings, SearcherSettings

REQUIRED = {
    "knowledge_base",
    "upper", "lower", "model", "index", "encoder", "retriever", "evaluator", "generator", "searcher",
}  # fmt: skip
"""Fields for which no default makes sense: the deployment's own models, data and thresholds."""


def settings_classes(cls: type[Settings] = Settings) -> Iterator[type[Settings]]:
    for subclass in cls.__subclasses__():
        if subclass.__module__.startswith(("crag_core", "deployments.settings")):
            yield subclass
            yield from settings_classes(subclass)


@pytest.mark.parametrize("cls", sorted(settings_classes(), key=lambda c: c.__name__))
def test_every_setting_has_a_description_and_a_default_where_one_makes_sense(
    cls: type[Settings],
) -> None:
    assert cls.model_config.get("extra") == "forbid"
    assert cls.model_config.get("frozen")
    for name, field in cls.model_fields.items():
        assert field.description, f"{cls.__name__}.{name} has no description"
        assert not field.is_required() or name in REQUIRED, f"{cls.__name__}.{name} has no default"


@pytest.mark.parametrize(
    ("upper", "lower", "words"),
    [
        (-1.0, 1.0, "upper threshold -1.0 is below lower threshold 1.0"),
        (math.nan, 0.0, "finite numbers, got upper nan"),
        (math.inf, 0.0, "finite numbers, got upper inf"),
    ],
)
def test_impossible_thresholds_are_refused_with_both_values(
    upper: float, lower: float, words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        ActionThresholds(upper=upper, lower=lower)


def test_a_misspelt_setting_is_an_error() -> None:
    with pytest.raises(ValidationError, match="retreive_limit"):
        CragSettings.model_validate({"retreive_limit": 3})


def test_options_change_only_what_they_name() -> None:
    settings = CragSettings()
    assert settings.with_options(AnswerOptions(), SamplingOptions()) == settings
    changed = settings.with_options(
        AnswerOptions(max_strips=2, recompose_order=RecomposeOrder.SCORE, search=False, temperature=0.0),
        SamplingOptions(stop=("\n",)),
    )
    assert changed.refinement.max_strips == 2
    assert changed.refinement.order is RecomposeOrder.SCORE
    assert changed.search is False
    assert changed.generation.stop == ("\n",)
    assert changed.refinement.mode is settings.refinement.mode
    assert changed.generation.max_new_tokens == settings.generation.max_new_tokens


@pytest.mark.parametrize(("force", "rule"), [(True, NoEvidence.ANSWER), (False, NoEvidence.ABSTAIN)])
def test_force_answer_chooses_between_a_guess_and_an_honest_no(force: bool, rule: NoEvidence) -> None:
    options = AnswerOptions(force_answer=force)
    assert CragSettings().with_options(options, SamplingOptions()).no_evidence is rule


def test_wikimedia_is_refused_without_an_operators_contact() -> None:
    with pytest.raises(ValidationError, match=r"en\.wikipedia\.org demands an operator's contact"):
        MediaWikiSettings()
    assert MediaWikiSettings(contact="ops@operator.example").contact
    assert MediaWikiSettings(api_url="http://127.0.0.1:8081/w/api.php").contact is None


def test_a_searcher_without_a_source_is_refused() -> None:
    with pytest.raises(ValidationError, match="a `snapshot`, a `mediawiki`, or both"):
        SearcherSettings()


def test_a_wrong_key_deep_in_the_application_is_named() -> None:
    with pytest.raises(ValidationError, match="generator.dtyp"):
        AppSettings.model_validate({"generator": {"model": "m", "dtyp": "float32"}})
