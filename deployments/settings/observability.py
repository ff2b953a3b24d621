"""Settings of traces, logs and records."""

from pydantic import Field

from crag_core.settings import Settings


class TracingSettings(Settings):
    """Traces of requests, by OpenTelemetry."""

    otlp_endpoint: str | None = Field(
        None,
        description="Where spans go, such as http://collector:4318/v1/traces (OTLP over HTTP); null "
        "traces nothing.",
    )
    sampled_share: float = Field(
        1.0,
        ge=0.0,
        le=1.0,
        description="Share of requests traced, of those whose client has not decided it by traceparent.",
    )


class RecordSettings(Settings):
    """Decision records of answers, with the question and its evidence in people's own words."""

    max_answers: int = Field(0, ge=0, description="Records kept in the cluster; 0 records nothing.")
    max_bytes: int = Field(256_000_000, ge=1_000, description="Bytes of all records together.")


class ObservabilitySettings(Settings):
    """What an operator sees of the application."""

    metrics: bool = Field(True, description="Whether processes export metrics through Ray.")
    log_texts: bool = Field(
        False,
        description="Whether the log line of an answer holds question, answer and evidence, which are "
        "people's own words.",
    )
    tracing: TracingSettings = Field(
        default_factory=TracingSettings, description="Traces of requests, by OpenTelemetry."
    )
    records: RecordSettings = Field(
        default_factory=RecordSettings, description="Decision records of answers."
    )
