"""The hardest labelled pairs: a question's relevant passages against those that its own words find."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from training.corpus import Bm25, Corpus
from training.labelled_pairs import LabelledPair, is_foreign, read_records, some_untitled, usable

_NEGATIVES = 10
_SEARCHED = 30
_SEED = 20240116


def hard_pairs(folder: Path, pairs: Sequence[LabelledPair]) -> list[LabelledPair]:
    """The relevant ones of labelled pairs, and for each question BM25's first passages of other pages.

    `folder` is where `pairs` were labelled. Always the same; raises SettingsError when a file lacks.
    """
    corpus = Corpus(read_records(folder, "wiki_corpus"), Bm25())
    rng = random.Random(_SEED)
    found: list[LabelledPair] = []
    for dataset, of_set in groupby(pairs, lambda pair: pair.dataset):
        relevant = [pair for pair in of_set if pair.is_relevant]
        found += relevant
        found += [some_untitled(pair, rng) for pair in _negatives(folder, dataset, relevant, corpus)]
    return found


def _negatives(
    folder: Path, dataset: str, relevant: Sequence[LabelledPair], corpus: Corpus
) -> Iterator[LabelledPair]:
    records = {
        f"{dataset}-{record['id']}": record for record in read_records(folder, dataset) if "id" in record
    }
    asked = list({(pair.group, pair.question): pair for pair in relevant}.values())
    searched = corpus.search([pair.question for pair in asked], _SEARCHED)
    for pair, near in zip(asked, searched, strict=True):
        foreign = [passage for passage in usable(near) if is_foreign(records[pair.group], passage)]
        for passage in foreign[:_NEGATIVES]:
            yield replace(pair, passage=passage, is_relevant=False)
