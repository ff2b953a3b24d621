"""The settings of every part, each in the file of its stage; `AppSettings` holds them all."""

from deployments.settings.access import AccessSettings, AdmissionSettings, ApiSettings
from deployments.settings.application import AppSettings
from deployments.settings.compact import (
    AtomicQASettings,
    CompactAppSettings,
    ExtractorSettings,
    HopReaderSettings,
    RewriterSettings,
)
from deployments.settings.evaluation import BatchingSettings, EvaluatorSettings, ExplainSettings
from deployments.settings.generation import GeneratorSettings
from deployments.settings.observability import ObservabilitySettings, RecordSettings, TracingSettings
from deployments.settings.retrieval import EncoderSettings, PageText, Pooling, RetrieverSettings
from deployments.settings.searching import (
    MediaWikiSettings,
    SearchBudgetSettings,
    SearchCacheSettings,
    SearcherSettings,
    SearchMode,
)

__all__ = [
    "AccessSettings",
    "AdmissionSettings",
    "ApiSettings",
    "AppSettings",
    "AtomicQASettings",
    "BatchingSettings",
    "CompactAppSettings",
    "EncoderSettings",
    "EvaluatorSettings",
    "ExplainSettings",
    "ExtractorSettings",
    "GeneratorSettings",
    "HopReaderSettings",
    "MediaWikiSettings",
    "ObservabilitySettings",
    "PageText",
    "Pooling",
    "RecordSettings",
    "RetrieverSettings",
    "RewriterSettings",
    "SearchBudgetSettings",
    "SearchCacheSettings",
    "SearchMode",
    "SearcherSettings",
    "TracingSettings",
]
