"""What the small models of pipeline `compact` learn from, split so that nothing judged was learnt.

Records are CompactRAG's: `compactrag_extract` (question, context of pairs, answer, answer_start) and
`compactrag_rewrite` (input, output), each with its `split`.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from crag_core.compact.grounding import names_in
from crag_core.compact.types import AtomicQA, Reading, Rewriting, ScoredPair
from crag_core.errors import SettingsError
from crag_core.metrics import normalised
from deployments.backends.reading.answer_extractor import BETWEEN_PAIRS
from training.labelled_pairs import read_records

_SPLITS = ("train", "valid", "test")
_REWRITING = re.compile(r"Q: (.*) \| prev_answer: (.*)", re.DOTALL)

Example = TypeVar("Example")


@dataclass(frozen=True, slots=True)
class Gold:
    """Where an answer stands: the position of its pair, and its characters in that pair's answer."""

    pair: int
    start: int
    text: str


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question with pairs, and its answer; without one where no pair gives it."""

    reading: Reading
    gold: Gold | None


@dataclass(frozen=True, slots=True)
class RewriteExample:
    """A question that points back, the answer it points to, and the question on its own feet."""

    rewriting: Rewriting
    output: str


@dataclass(frozen=True)
class Splits(Generic[Example]):
    """Examples to train on, to choose the best epoch by, and to report; `left_out` by reason."""

    train: tuple[Example, ...]
    valid: tuple[Example, ...]
    test: tuple[Example, ...]
    left_out: Counter[str] = field(default_factory=Counter)

    def drawn(self, train: int | None, judged: int | None, seed: int) -> "Splits[Example]":
        """So many at most to train on, and of both other splits."""
        return Splits(
            _drawn(self.train, train, seed),
            _drawn(self.valid, judged, seed),
            _drawn(self.test, judged, seed),
            self.left_out,
        )

    def __str__(self) -> str:
        out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.left_out.items()))
        return (
            f"{len(self.train):,} examples to train on, {len(self.valid):,} to choose by, "
            f"{len(self.test):,} to report; left out: {out or 'none'}"
        )


def span_examples(folder: Path, null_share: float, seed: int) -> Splits[SpanExample]:
    """The extractor's examples, and for some of them the same question without what answers it.

    `null_share` of the questions trained on are asked once more so, and every one that is judged. Raises
    SettingsError when the file is missing, or a record is none.
    """
    splits = _split(folder, "compactrag_extract", _span_example)
    left_out = Counter(splits.left_out)
    parts: list[list[SpanExample]] = []
    for part, share in ((splits.train, null_share), (splits.valid, 1.0), (splits.test, 1.0)):
        sound = [example for example in part if _is_aligned(example)]
        left_out["misaligned"] += len(part) - len(sound)
        parts.append(sound)
        chosen = random.Random(seed).sample(sound, round(share * len(sound)))
        parts[-1] += [null for null in map(_without_answer, chosen) if null.reading.pairs]
    train, valid, test = map(tuple, _unleaked(parts, _span_texts, left_out))
    return Splits(train, valid, test, +left_out)


def rewrite_examples(folder: Path) -> Splits[RewriteExample]:
    """The rewriter's examples; trained on are only those whose output can be known from the input.

    Raises SettingsError when the file is missing, or a record is none.
    """
    splits = _split(folder, "compactrag_rewrite", _rewrite_example)
    left_out = Counter(splits.left_out)
    learnable = [example for example in splits.train if _is_learnable(example)]
    left_out["not to be known from the input"] += len(splits.train) - len(learnable)
    parts = [learnable, list(splits.valid), list(splits.test)]
    train, valid, test = map(tuple, _unleaked(parts, _rewrite_texts, left_out))
    return Splits(train, valid, test, +left_out)


def _split(folder: Path, name: str, example_of: Callable[[dict[str, Any]], Example]) -> Splits[Example]:
    parts: dict[str, list[Example]] = {split: [] for split in _SPLITS}
    for record in read_records(folder, name):
        try:
            parts[record["split"]].append(example_of(record))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SettingsError(
                f"{folder}/{name}: record {record.get('id')} is no example ({error!r}): fetch the "
                "file again"
            ) from error
    empty = [split for split in _SPLITS if not parts[split]]
    if empty:
        raise SettingsError(f"{folder}/{name} has no records of split {', '.join(empty)}")
    train, valid, test = (tuple(parts[split]) for split in _SPLITS)
    return Splits(train, valid, test)


def _span_example(record: dict[str, Any]) -> SpanExample:
    start, answer = int(record["answer_start"]), str(record["answer"])
    pairs: list[ScoredPair] = []
    gold: Gold | None = None
    begin = 0
    for place, block in enumerate(record["context"].split(BETWEEN_PAIRS)):
        question, _, text = block.partition("\n")
        inside = start - begin - len(question) - 1
        if 0 <= inside < len(text):
            gold = Gold(place, inside, answer)
        pairs.append(ScoredPair(AtomicQA(f"{record['id']}-{place}", question, text, record["id"]), 1.0))
        begin += len(block) + len(BETWEEN_PAIRS)
    return SpanExample(Reading(record["question"], tuple(pairs)), gold)


def _is_aligned(example: SpanExample) -> bool:
    gold = example.gold
    if gold is None:
        return False
    said = example.reading.pairs[gold.pair].pair.answer
    return bool(gold.text) and said[gold.start : gold.start + len(gold.text)] == gold.text


def _without_answer(example: SpanExample) -> SpanExample:
    assert example.gold is not None, "only what has an answer can lose it"
    answer = example.gold.text.casefold()
    left = tuple(
        found
        for found in example.reading.pairs
        if answer not in f"{found.pair.question}\n{found.pair.answer}".casefold()
    )
    return SpanExample(Reading(example.reading.question, left), None)


def _span_texts(example: SpanExample) -> Iterable[str]:
    yield example.reading.question
    for found in example.reading.pairs:
        yield f"{found.pair.question}\n{found.pair.answer}"


def _rewrite_example(record: dict[str, Any]) -> RewriteExample:
    read = _REWRITING.fullmatch(record["input"])
    if read is None:
        raise ValueError("its input is not `Q: ... | prev_answer: ...`")
    return RewriteExample(Rewriting(read[1], read[2]), str(record["output"]))


def _is_learnable(example: RewriteExample) -> bool:
    """Whether the output changes the question, and names nothing that the input does not."""
    question, entity = example.rewriting.question, example.rewriting.entity
    known = {normalised(word) for word in re.findall(r"[\w'’.,-]+", f"{question} {entity}")}
    named = {normalised(name) for name in names_in(example.output)}
    return normalised(example.output) != normalised(question) and named <= known


def _rewrite_texts(example: RewriteExample) -> Iterable[str]:
    yield f"{example.rewriting.question} | {example.rewriting.entity}"
    yield example.output


def _unleaked(
    parts: Sequence[Sequence[Example]],
    texts: Callable[[Example], Iterable[str]],
    left_out: Counter[str],
) -> list[list[Example]]:
    """Each part without what shares a text with a later one: the last, the test, is kept whole."""
    seen: set[str] = set()
    kept: list[list[Example]] = []
    for part in reversed(parts):
        own = [{normalised(text) for text in texts(example)} for example in part]
        unseen = [example for example, said in zip(part, own, strict=True) if seen.isdisjoint(said)]
        left_out["shared with a later split"] += len(part) - len(unseen)
        kept.insert(0, unseen)
        seen |= set().union(*own)
    return kept


def _drawn(examples: tuple[Example, ...], limit: int | None, seed: int) -> tuple[Example, ...]:
    if limit is None or limit >= len(examples):
        return examples
    return tuple(random.Random(seed).sample(examples, limit))
