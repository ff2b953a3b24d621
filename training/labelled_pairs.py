"""Labelled question-passage pairs, from the question sets with known answers or supporting paragraphs.

A pair is relevant when the passage answers the question (PopQA) or supports a hop of it (HotpotQA,
2WikiMultihopQA, MuSiQue). Irrelevant passages are mostly hard ones: the set's own distractors, and
what a text search of the corpus finds for the question. Passages nobody can label are left out.
"""

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crag_core.errors import SettingsError
from crag_core.settings import RefinementSettings
from crag_core.strips import decompose
from crag_core.types import Document, Passage
from training.corpus import Corpus, tf_idf
from training.options import PopqaLabels

MULTI_HOP_SETS = ("hotpotqa", "2wiki", "musique")
ALL_SETS = ("popqa", *MULTI_HOP_SETS)

_SEED = 20240115
_MIN_WORDS = 5
_MIN_ALIAS_LETTERS = 4
"""Shorter aliases (`pol`, `SF`) match by chance."""
_MAX_RELEVANT = 3
_MAX_DISTRACTORS = 5
_MAX_FOUND = 4
_UNTITLED_SHARE = 0.3
_STRIP_WORDS = 60
"""Relevant passages longer than this also give strips, since the evaluator scores those too."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """One passage for one question; `group` is the question's id, never split between fit and test.

    `kind` is what is asked for: PopQA's relation, or the set's own type. `entities` are the pages that
    the question is about.
    """

    dataset: str
    group: str
    question: str
    passage: Passage
    is_relevant: bool
    kind: str = "other"
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _About:
    """What the pairs of one question have in common."""

    dataset: str
    id: str
    kind: str
    entities: tuple[str, ...]


def labelled_pairs(
    folder: Path,
    sets: Sequence[str] = ALL_SETS,
    popqa_labels: PopqaLabels = PopqaLabels.ANSWER,
) -> list[LabelledPair]:
    """All pairs of these sets in a folder that also has wiki_corpus; always the same.

    Raises SettingsError when a file is missing, or a set is unknown.
    """
    unknown = [name for name in sets if name not in ALL_SETS]
    if unknown:
        raise SettingsError(f"{', '.join(unknown)} has no labels: choose among {', '.join(ALL_SETS)}")
    rng = random.Random(_SEED)
    corpus = Corpus(read_records(folder, "wiki_corpus"), tf_idf())
    pairs: list[LabelledPair] = []
    for name in sets:
        records = read_records(folder, name)
        if name == "popqa":
            pairs.extend(_popqa(records, corpus, rng, popqa_labels))
        else:
            annotated = [record for record in records if record["paragraphs"]]
            pairs.extend(_multi_hop(name, annotated, corpus, rng))
    return [some_untitled(pair, rng) for pair in pairs]


def whole_questions(pairs: Sequence[LabelledPair], limit: int | None, seed: int) -> list[LabelledPair]:
    """At most `limit` pairs, of questions drawn by chance, each with all of its pairs, in order."""
    if limit is None or limit >= len(pairs):
        return list(pairs)
    counts = Counter(pair.group for pair in pairs)
    drawn = random.Random(seed).sample(list(counts), len(counts))
    chosen: set[str] = set()
    taken = 0
    for group in drawn:
        if taken + counts[group] <= limit:
            chosen.add(group)
            taken += counts[group]
    return [pair for pair in pairs if pair.group in chosen]


def describe(pairs: Sequence[LabelledPair]) -> str:
    """What a training saw, in one sentence."""
    relevant = sum(pair.is_relevant for pair in pairs)
    sets = ", ".join(dict.fromkeys(pair.dataset for pair in pairs))
    return f"{len(pairs)} pairs, {relevant} of them relevant, of {sets}"


def is_foreign(record: dict[str, Any], passage: Passage) -> bool:
    """Whether a corpus passage is of no page that a question is about, and answers at most by chance."""
    if "s_wiki_title" not in record:
        return passage.title not in record["supporting_titles"]
    return passage.title != record["s_wiki_title"] and not (
        _mentions(f"{passage.title} {passage.text}", [record["subj"]])
        and _has_answer(record, passage.text)
    )


def read_records(folder: Path, name: str) -> list[dict[str, Any]]:
    """The records of `name.jsonl` or `name.jsonl.gz`; raises SettingsError when neither is there."""
    plain, packed = folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"
    if packed.is_file():
        try:
            text = gzip.decompress(packed.read_bytes()).decode("utf-8")
        except (EOFError, OSError) as error:
            raise SettingsError(f"{packed} was cut: fetch it again") from error
    elif plain.is_file():
        text = plain.read_text("utf-8")
    else:
        raise SettingsError(
            f"{folder} holds neither {plain.name} nor {packed.name}: name another folder"
        )
    records: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line:
            try:
                records.append(json.loads(line))
            except ValueError as error:
                raise SettingsError(
                    f"{folder}/{name}:{number} is not JSON, or was cut: fetch the file again"
                ) from error
    ids = Counter(record["id"] for record in records if "id" in record)
    if ids and (twice := [name for name, count in ids.items() if count > 1]):
        raise SettingsError(f"{folder}/{name} has ids more than once, such as {twice[0]}")
    return records


def _popqa(
    records: Sequence[dict[str, Any]], corpus: Corpus, rng: random.Random, labels: PopqaLabels
) -> Iterator[LabelledPair]:
    found = corpus.search([record["question"] for record in records], limit=12)
    for record, near in zip(records, found, strict=True):
        listed = [
            Passage(entry["text"], entry["title"] or "")
            for entry in (*record["internal"], *record["external"])
        ]
        own_page = corpus.by_title.get(record["s_wiki_title"], [])
        relevant: list[Passage] = []
        distractors: list[Passage] = []
        for passage in usable([*own_page, *listed]):
            label = _popqa_label(record, passage, labels)
            if label is not None:
                (relevant if label else distractors).append(passage)
        hard = [passage for passage in usable(near) if is_foreign(record, passage)]
        relevant = _sample(rng, relevant, _MAX_RELEVANT)
        irrelevant = [
            *_sample(rng, distractors, _MAX_DISTRACTORS),
            *hard[:_MAX_FOUND],
            *corpus.strangers(rng, {record["s_wiki_title"]}),
        ]
        if labels is PopqaLabels.ANSWER:
            strips = [strip for passage in relevant for strip in _strips(record, passage)]
            relevant += [strip for strip, has_answer in strips if has_answer]
            irrelevant += [strip for strip, has_answer in strips if not has_answer]
        about = _About("popqa", record["id"], record.get("prop", "other"), (record["s_wiki_title"],))
        yield from _labelled(about, record["question"], relevant, irrelevant)


def _popqa_label(record: dict[str, Any], passage: Passage, labels: PopqaLabels) -> bool | None:
    """Whether a retrieved passage is relevant; None where page and answer disagree."""
    is_own_page = passage.title == record["s_wiki_title"]
    if labels is PopqaLabels.TITLE:
        return is_own_page if passage.title else None
    names_subject = _mentions(passage.text, [record["subj"]])
    has_answer = _has_answer(record, passage.text)
    if has_answer:
        return True if is_own_page or names_subject else None
    if is_own_page or (names_subject and not passage.title):
        return None
    return False


def _strips(record: dict[str, Any], passage: Passage) -> Iterator[tuple[Passage, bool]]:
    """One strip of a long relevant passage that holds the answer, and one that does not."""
    if len(passage.text.split()) < _STRIP_WORDS:
        return
    wanted = {True, False}
    for strip in decompose(Document("", passage.text), RefinementSettings()):
        has_answer = _has_answer(record, strip.text)
        if has_answer in wanted:
            wanted.discard(has_answer)
            yield Passage(strip.text, passage.title), has_answer


def _multi_hop(
    name: str, records: Sequence[dict[str, Any]], corpus: Corpus, rng: random.Random
) -> Iterator[LabelledPair]:
    found = corpus.search([record["question"] for record in records], limit=8)
    for record, near in zip(records, found, strict=True):
        supporting = set(record["supporting_titles"])
        own = [(Passage(p["text"], p["title"]), p["is_supporting"]) for p in record["paragraphs"]]
        relevant = [passage for passage, is_supporting in own if is_supporting]
        distractors = [passage for passage, is_supporting in own if not is_supporting]
        hard = [passage for passage in usable(near) if is_foreign(record, passage)]
        irrelevant = [
            *_sample(rng, distractors, _MAX_DISTRACTORS),
            *hard[:2],
            *corpus.strangers(rng, supporting),
        ]
        about = _About(name, record["id"], record.get("type") or "other", tuple(sorted(supporting)))
        yield from _labelled(about, record["question"], relevant, irrelevant)
        yield from _first_hops(about, record, [passage for passage, _ in own], rng)


def _first_hops(
    about: _About, record: dict[str, Any], passages: Sequence[Passage], rng: random.Random
) -> Iterator[LabelledPair]:
    """The sub-questions of a decomposition that stand alone (`#1` refers to an earlier answer)."""
    for step in record.get("decomposition") or ():
        if "#" in step["question"]:
            continue
        question = step["question"].replace(" >> ", " ")
        relevant = [p for p in passages if p.title == step["support_title"]]
        others = [p for p in passages if p.title != step["support_title"]]
        yield from _labelled(about, question, relevant, _sample(rng, others, 4))


def _labelled(
    about: _About,
    question: str,
    relevant: Sequence[Passage],
    irrelevant: Sequence[Passage],
) -> Iterator[LabelledPair]:
    group = f"{about.dataset}-{about.id}"
    for passages, is_relevant in ((relevant, True), (irrelevant, False)):
        for passage in passages:
            yield LabelledPair(
                about.dataset, group, question, passage, is_relevant, about.kind, about.entities
            )


def some_untitled(pair: LabelledPair, rng: random.Random) -> LabelledPair:
    """The pair, now and then without its passage's title: callers' own documents often have none."""
    if rng.random() >= _UNTITLED_SHARE:
        return pair
    return replace(pair, passage=replace(pair.passage, title=""))


def usable(passages: Sequence[Passage]) -> list[Passage]:
    """Each passage once, without fragments."""
    return [p for p in dict.fromkeys(passages) if len(p.text.split()) >= _MIN_WORDS]


def _sample(rng: random.Random, passages: Sequence[Passage], limit: int) -> list[Passage]:
    return rng.sample(passages, min(limit, len(passages)))


def _has_answer(record: dict[str, Any], text: str) -> bool:
    aliases = [alias for alias in record["answers"] if len(alias) >= _MIN_ALIAS_LETTERS]
    return _mentions(text, aliases or [record["obj"]])


def _mentions(text: str, names: Sequence[str]) -> bool:
    pattern = "|".join(re.escape(name) for name in names)
    return re.search(rf"(?<!\w)(?:{pattern})(?!\w)", text, re.IGNORECASE) is not None
