"""What a run of the load generator is told."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from benchmarks.load.arrivals import Arrivals
from benchmarks.load.workloads import WorkloadName
from crag_core.types import PipelineName

MAX_REQUESTS = 1_000_000
MAX_DURATION_S = 24 * 3600.0
MAX_RATE_PER_S = 50_000.0


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArrivalSettings(_Settings):
    """When requests are due."""

    kind: Arrivals = Field(Arrivals.POISSON, description="The arrival process.")
    rate_per_s: float = Field(1.0, ge=0, le=MAX_RATE_PER_S, description="Mean rate; a ramp's first.")
    rate_to_per_s: float = Field(0.0, ge=0, le=MAX_RATE_PER_S, description="A ramp's last rate.")
    cv: float = Field(3.0, gt=0, le=20, description="Coefficient of variation of Gamma gaps.")
    trace: Path | None = Field(None, description="File of arrival times, for `trace`.")
    concurrency: int = Field(8, ge=1, le=10_000, description="Requests in flight, for `closed`.")
    seed: int | None = Field(
        None, description="Of what luck decides: times, actions, hang-ups; null takes the run's own."
    )


class WorkloadSettings(_Settings):
    """What is sent."""

    name: WorkloadName = Field(WorkloadName.W2, description="The workload.")
    pipeline: PipelineName = Field(PipelineName.CRAG, description="Which pipeline answers.")
    is_streamed: bool = Field(False, description="Whether answers are streamed on the OpenAI route.")
    data: Path | None = Field(None, description="Folder of the question set, for `data`.")
    data_name: str = Field("questions", description="Question set: file name without .jsonl.")
    with_documents: bool = Field(False, description="Whether the set's own documents are sent along.")
    max_new_tokens: int | None = Field(None, ge=1, le=1024, description="Tokens generated at most.")
    hang_up_share: float = Field(0.0, ge=0, le=1, description="Share of requests that hang up.")
    hang_up_within_s: float = Field(2.0, gt=0, le=600, description="... at a moment up to this late.")
    background: int = Field(2, ge=0, le=256, description="Background calls in flight, for W5.")


class ClientSettings(_Settings):
    """How each client behaves."""

    timeout_s: float = Field(60.0, gt=0, le=3600, description="The client gives up after so long.")
    deadline_s: float | None = Field(None, gt=0, le=3600, description="Asked of the server by header.")
    retries: int = Field(0, ge=0, le=10, description="Attempts after a 429, a 503 or no connection.")
    connections: int = Field(1000, ge=1, le=20_000, description="Connections of all processes.")
    headers: tuple[tuple[str, str], ...] = Field((), repr=False, description="Sent with each request.")


class SloSettings(_Settings):
    """What counts as good; latency and first token are measured from when a request was due."""

    latency_s: float | None = Field(None, gt=0, description="Longest time to the whole answer.")
    first_token_s: float | None = Field(None, gt=0, description="Longest time to the first token.")
    share: float = Field(0.99, gt=0, le=1, description="Share of requests that must keep to it.")

    @property
    def is_set(self) -> bool:
        """Whether there is anything to keep to."""
        return self.latency_s is not None or self.first_token_s is not None


class LoadSettings(_Settings):
    """One run."""

    arrivals: ArrivalSettings = Field(ArrivalSettings(), description="When requests are due.")
    workload: WorkloadSettings = Field(WorkloadSettings(), description="What is sent.")
    client: ClientSettings = Field(ClientSettings(), description="How each client behaves.")
    slo: SloSettings = Field(SloSettings(), description="What counts as good.")
    duration_s: float = Field(60.0, gt=0, le=MAX_DURATION_S, description="Measured time.")
    warmup_s: float = Field(10.0, ge=0, le=3600, description="Time before it, sent and not measured.")
    max_requests: int = Field(100_000, ge=1, le=MAX_REQUESTS, description="Requests at most.")
    seed: int = Field(0, description="Of texts, and of arrivals, actions and hang-ups.")
    processes: int = Field(1, ge=1, le=64, description="Processes that send.")

    @property
    def total_s(self) -> float:
        """Warm-up and measured time."""
        return self.warmup_s + self.duration_s

    @property
    def offered_per_s(self) -> float:
        """The rate that is sent; W7 sends twice the rate it is given."""
        return self.arrivals.rate_per_s * self.workload.name.rate_factor

    @property
    def luck(self) -> int:
        """The seed of times, actions and hang-ups."""
        return self.seed if self.arrivals.seed is None else self.arrivals.seed

    def at_rate(self, rate_per_s: float, luck: int, seed: int) -> "LoadSettings":
        """The same run at another rate; `seed` is that of the texts, which no cache may know."""
        arrivals = self.arrivals.model_copy(update={"rate_per_s": rate_per_s, "seed": luck})
        return self.model_copy(update={"arrivals": arrivals, "seed": seed})

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.arrivals.kind is Arrivals.TRACE and self.arrivals.trace is None:
            raise ValueError("arrivals `trace` need the file: --trace FILE")
        if (self.workload.name is WorkloadName.DATA) != (self.workload.data is not None):
            raise ValueError("--data FOLDER and --workload data go together")
        ranking = self.workload.name in (WorkloadName.W1, WorkloadName.W4)
        if self.slo.first_token_s is not None and (ranking or not self.workload.is_streamed):
            raise ValueError("a limit for the first token needs --stream, and a workload of answers")
        if self.offered_per_s > MAX_RATE_PER_S:
            raise ValueError(f"{self.workload.name} would send {self.offered_per_s:g} requests a second")
        return self
