"""The application's settings: `AppSettings` is the `args:` block of a Serve config file."""

from typing import Self

from pydantic import Field, model_validator

from crag_core.settings import CragSettings, Settings
from deployments.settings.access import AdmissionSettings, ApiSettings
from deployments.settings.compact import CompactAppSettings
from deployments.settings.evaluation import EvaluatorSettings, ExplainSettings
from deployments.settings.generation import GeneratorSettings
from deployments.settings.observability import ObservabilitySettings
from deployments.settings.retrieval import RetrieverSettings
from deployments.settings.searching import SearcherSettings


class AppSettings(Settings):
    """Everything the application is told; placement stands beside it, in `deployments:`."""

    crag: CragSettings = Field(default_factory=CragSettings, description="The pipelines.")
    retriever: RetrieverSettings = Field(description="The static corpus.")
    evaluator: EvaluatorSettings = Field(description="The retrieval evaluator.")
    generator: GeneratorSettings = Field(description="The generator.")
    searcher: SearcherSettings = Field(description="Knowledge searching.")
    compact: CompactAppSettings | None = Field(
        None, description="Pipeline `compact`; null leaves it out."
    )
    explain: ExplainSettings | None = Field(
        None, description="Explanations of scores; null leaves them out."
    )
    api: ApiSettings = Field(default_factory=ApiSettings, description="The HTTP API.")
    admission: AdmissionSettings = Field(
        default_factory=AdmissionSettings, description="Which requests are let in."
    )
    observability: ObservabilitySettings = Field(
        default_factory=ObservabilitySettings, description="Metrics, traces, logs and records."
    )

    @model_validator(mode="after")
    def _prompts_fit_the_window(self) -> Self:
        budget = self.crag.generation.prompt_token_budget
        if budget >= self.generator.max_model_len:
            raise ValueError(
                f"crag.generation.prompt_token_budget {budget} leaves no room for an answer in "
                f"generator.max_model_len {self.generator.max_model_len}: lower it"
            )
        return self
