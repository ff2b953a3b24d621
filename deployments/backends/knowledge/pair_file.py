"""The pairs of a base as JSON lines: judged one by one, and each fact once."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from crag_core.compact.knowledge_base import JudgedPair, PairFlaw, fact_key, judged
from crag_core.errors import SettingsError
from deployments.backends.indexes.source_file import Meter, read_lines

PAIRS = "pairs.jsonl"
"""File in a base's folder: its pairs, with the passage that each was read from."""

_MAX_PAIRS = 200


class PublishedPassage(BaseModel):
    """A line of published atomic QA; what else it holds is not needed."""

    model_config = ConfigDict(frozen=True)

    title: str = ""
    text: str = ""
    qa: list[Any] | None = None
    corpus_id: str | None = None
    url: str | None = None
    dataset: str | None = None
    reader: str | None = None

    @property
    def passage_id(self) -> str:
        """Its own id, or one made of title and text."""
        return self.corpus_id or passage_hash(self.title, self.text)[:16]


@dataclass(slots=True)
class PairCounts:
    """What became of the pairs of a base."""

    passages: int = 0
    without_pairs: int = 0
    kept: int = 0
    repaired: int = 0
    rejected: Counter[PairFlaw] = field(default_factory=Counter)
    unreadable_lines: int = 0


@dataclass(slots=True)
class PairWriter:
    """Writes pairs, each fact of the whole base once, and counts what became of them."""

    counts: PairCounts = field(default_factory=PairCounts)
    _seen: set[bytes] = field(default_factory=set)

    def rows(self, passage: PublishedPassage, pairs: Iterable[JudgedPair]) -> Iterator[dict[str, Any]]:
        """The rows of one passage's pairs."""
        kept = 0
        for pair in pairs:
            flaw = pair.flaw
            if flaw is None:
                key = sha256(fact_key(pair.question, pair.answer).encode()).digest()[:16]
                flaw = PairFlaw.DUPLICATE if key in self._seen else None
                self._seen.add(key)
            if flaw is not None:
                self.counts.rejected[flaw] += 1
                continue
            kept += 1
            self.counts.repaired += pair.was_repaired
            yield {
                "question": pair.question,
                "answer": pair.answer,
                "passage_id": passage.passage_id,
                "title": passage.title,
                "text": passage.text,
                "url": passage.url,
            }
        self.counts.passages += 1
        self.counts.without_pairs += kept == 0
        self.counts.kept += kept


def passage_hash(title: str, text: str) -> str:
    """Identifies a passage by what it says."""
    return sha256(f"{title}\0{text}".encode(errors="replace")).hexdigest()


def judged_pairs(
    passage: PublishedPassage, pairs: Sequence[Any], entities: Sequence[str] = (), *, verbatim: bool
) -> list[JudgedPair]:
    """Each pair of a passage, whatever it is, as kept or with its flaw."""
    return [
        judged(
            pair.get("question") if isinstance(pair, Mapping) else None,
            pair.get("answer") if isinstance(pair, Mapping) else None,
            title=passage.title,
            passage=passage.text,
            entities=entities,
            verbatim=verbatim,
        )
        for pair in pairs[:_MAX_PAIRS]
    ]


def import_pairs(
    files: Sequence[Path],
    out: Path,
    *,
    datasets: Sequence[str] = (),
    readers: Sequence[str] = (),
    verbatim: bool = False,
) -> PairCounts:
    """Write the pairs of published atomic QA into a folder, as `pairs.jsonl`.

    With `datasets` or `readers`, only lines that name one of them. Lines that cannot be read are
    counted and left out. Raises SettingsError when a file cannot be read, or no pair was kept.
    """
    writer = PairWriter()
    out.mkdir(parents=True, exist_ok=True)
    aside = out / f"{PAIRS}.part"
    with aside.open("w", encoding="utf-8", newline="\n") as sink:
        for line in (line for file in files for line in read_lines(file, Meter())):
            if not line.strip():
                continue
            try:
                passage = PublishedPassage.model_validate_json(line)
            except ValidationError:
                writer.counts.unreadable_lines += 1
                continue
            if datasets and passage.dataset not in datasets:
                continue
            if readers and passage.reader not in readers:
                continue
            pairs = judged_pairs(passage, passage.qa or [], verbatim=verbatim)
            for row in writer.rows(passage, pairs):
                sink.write(json.dumps(row, ensure_ascii=False) + "\n")
    if not writer.counts.kept:
        aside.unlink()
        raise SettingsError(
            f"no pair of {', '.join(file.name for file in files)} was kept: "
            "lines need `title`, `text` and `qa` with `question` and `answer`"
        )
    aside.replace(out / PAIRS)
    return writer.counts
