"""Settings of knowledge searching: its sources, a wiki, and the budget of that."""

from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from crag_core.settings import Settings
from crag_core.types import DocumentSource

_WIKIMEDIA = ("wikipedia.org", "wikimedia.org", "wikidata.org")


class SearchBudgetSettings(Settings):
    """What all replicas together may ask of one wiki."""

    requests_per_minute: int = Field(
        180,
        ge=1,
        description="Requests in any 60 seconds at most, bursts included. Wikimedia allows 200 to an "
        "unauthenticated client that names its operator.",
    )
    burst: int = Field(10, ge=1, description="Requests that may be sent at once after a quiet time.")
    max_in_flight: int = Field(3, ge=1, description="Requests in flight in the whole cluster.")
    max_waiting: int = Field(
        256, ge=1, description="Queries that wait for the budget; more fail at once."
    )
    lease_s: float = Field(
        8.0, gt=0, description="A request whose replica has not reported its end by then has none."
    )
    pause_s: float = Field(
        1.0,
        gt=0,
        description="Pause for everybody when the wiki throttles without saying for how long; doubled "
        "each time until it answers.",
    )
    max_pause_s: float = Field(
        3_600.0,
        gt=0,
        description="A longer Retry-After counts as this one; then the wiki is asked again.",
    )
    retry_share: float = Field(
        0.15, ge=0.0, le=0.5, description="Retries per request in the long run, over all replicas."
    )
    failures_in_a_row: int = Field(5, ge=1, description="So many failures in a row open the circuit.")
    failure_share: float = Field(
        0.5, gt=0.0, le=1.0, description="So do so many failures among the last requests."
    )
    failure_window: int = Field(20, ge=2, description="How many last requests those are.")
    open_s: float = Field(
        5.0, gt=0, description="An open circuit lets one probe pass after so long; doubled if it fails."
    )
    max_open_s: float = Field(30.0, gt=0, description="Longest time between two probes.")
    share_when_lost: float = Field(
        0.1,
        gt=0.0,
        le=1.0,
        description="Share of `requests_per_minute` that a replica grants itself while it cannot reach "
        "the shared budget: at most one divided by the number of replicas.",
    )

    @model_validator(mode="after")
    def _burst_within_a_minute(self) -> Self:
        if self.burst >= self.requests_per_minute:
            raise ValueError(
                f"burst {self.burst} leaves nothing of requests_per_minute "
                f"{self.requests_per_minute} for the rest of the minute: lower it"
            )
        return self

    @property
    def rate_per_s(self) -> float:
        """Requests per second in the long run: what a full burst leaves of a minute."""
        return (self.requests_per_minute - self.burst) / 60

    def when_lost(self) -> "SearchBudgetSettings":
        """The budget of a replica on its own."""
        per_minute = max(2, int(self.requests_per_minute * self.share_when_lost))
        return self.model_copy(
            update={"requests_per_minute": per_minute, "burst": 1, "max_in_flight": 1}
        )


class SearchCacheSettings(Settings):
    """Answers of a wiki that all replicas share; a bound of 0 seconds keeps none of that kind."""

    ttl_s: float = Field(1_800.0, ge=0, description="An answer with a page is fresh for so long.")
    negative_ttl_s: float = Field(90.0, ge=0, description="An answer without one is fresh for so long.")
    stale_s: float = Field(
        86_400.0, ge=0, description="When the wiki fails, an answer up to so old is used instead."
    )
    max_bytes: int = Field(64_000_000, ge=1_000, description="Bytes of all answers.")
    max_entries: int = Field(50_000, ge=1, description="Number of answers.")
    max_entry_bytes: int = Field(500_000, ge=1, description="A larger answer is not kept.")


class MediaWikiSettings(Settings):
    """A MediaWiki's Action API."""

    api_url: str = Field("https://en.wikipedia.org/w/api.php", description="Address of the Action API.")
    contact: str | None = Field(
        None,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="The operator's mail address or page, for the User-Agent; Wikimedia demands it.",
    )
    timeout_s: float = Field(6.0, gt=0, description="One look-up takes at most this long.")
    max_response_bytes: int = Field(4_000_000, ge=1_000, description="Longer answers are refused.")
    max_attempts: int = Field(3, ge=1, le=4, description="Requests for one query, retries included.")
    maxlag_s: int = Field(
        5, ge=1, description="Requests of the lane `batch` yield to a wiki whose databases lag so far."
    )
    budget: SearchBudgetSettings = Field(
        default_factory=SearchBudgetSettings, description="What all replicas together may ask of it."
    )
    cache: SearchCacheSettings = Field(
        default_factory=SearchCacheSettings, description="Its answers, kept for all replicas."
    )

    @property
    def host(self) -> str:
        """The wiki's host, as messages and metrics name it."""
        return urlsplit(self.api_url).hostname or self.api_url

    @property
    def budget_name(self) -> str:
        """Who counts our requests: the host, or Wikimedia, for all of its wikis together."""
        return "wikimedia" if self.host.endswith(_WIKIMEDIA) else self.host

    @model_validator(mode="after")
    def _leases_outlast_requests(self) -> Self:
        if self.budget.lease_s <= self.timeout_s:
            raise ValueError(
                f"budget.lease_s {self.budget.lease_s:g} must exceed timeout_s {self.timeout_s:g}: "
                "else a request may outlive its place in the budget"
            )
        return self

    @model_validator(mode="after")
    def _contact_for_wikimedia(self) -> Self:
        host = urlsplit(self.api_url).hostname or ""
        if host.endswith(_WIKIMEDIA) and not self.contact:
            raise ValueError(
                f"{host} demands an operator's contact in the User-Agent: "
                "set `contact` to your mail address or page"
            )
        return self


class SearchMode(StrEnum):
    """Which queries are asked in which order: ours, or the open reproduction's."""

    BATCHED = "batched"
    REPRODUCTION = "reproduction"


class SearcherSettings(Settings):
    """Knowledge searching: MediaWiki, or a local snapshot, which is also MediaWiki's fallback."""

    mode: SearchMode = Field(
        SearchMode.BATCHED,
        description="`batched` folds all strategies into few requests; `reproduction` asks one after "
        "the other, as the open reproduction does.",
    )
    max_requests: int = Field(
        3, ge=1, le=10, description="Requests of one search in mode `batched`, at most."
    )
    entity_model: str | None = Field(
        None,
        description="Name or folder of a spaCy pipeline that finds names where no rule does; null "
        "takes the rules alone.",
    )

    snapshot: str | None = Field(None, description="Folder or URI of a snapshot index.")
    mediawiki: MediaWikiSettings | None = Field(None, description="Null searches the snapshot only.")
    replay: tuple[str, ...] = Field(
        (),
        description="For evaluation only, instead of the others: files of question sets whose rows have "
        "`id` and `external`, which answers the request with id SET.ID, SET being the file's name.",
    )

    @model_validator(mode="after")
    def _some_backend(self) -> Self:
        if self.snapshot is None and self.mediawiki is None and not self.replay:
            raise ValueError("searcher needs a `snapshot`, a `mediawiki`, or both")
        if self.replay and (self.snapshot or self.mediawiki):
            raise ValueError(
                "searcher takes `replay` alone: beside it no other source may answer an evaluation"
            )
        return self

    @property
    def sources(self) -> tuple[DocumentSource, ...]:
        """The configured sources in the order in which they are asked."""
        configured = {
            DocumentSource.WIKIPEDIA: self.mediawiki,
            DocumentSource.SNAPSHOT: self.snapshot,
            DocumentSource.REPLAY: self.replay or None,
        }
        return tuple(source for source, backend in configured.items() if backend is not None)
