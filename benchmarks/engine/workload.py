"""The pairs of one measurement: generated, or real."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.pairs import PAIRS_PER_QUESTION, pairs_of, w2_lengths
from benchmarks.engine.peers import Pairs
from benchmarks.engine.real_pairs import real_pairs
from benchmarks.engine.shapes import VOCABULARY

_CALIBRATION_PAIRS = 310


@dataclass(frozen=True, slots=True)
class Workload:
    """Pairs to be timed, and those that decisions are measured and judged on."""

    description: str
    timed: Pairs
    known: Pairs
    judged: Pairs


def generated_workload(questions: int, decisions: int) -> Workload:
    """Random tokens in the lengths of workload W2."""

    def pairs(count: int, seed: int) -> Pairs:
        lengths = w2_lengths(-(-count // PAIRS_PER_QUESTION), seed)[:count]
        return pairs_of(lengths, VOCABULARY, seed)

    timed, known = pairs(questions * PAIRS_PER_QUESTION, 0), pairs(_CALIBRATION_PAIRS, 1)
    return Workload("generated pairs", timed, known, pairs(decisions, 2))


def real_workload(data: Path, tokenizer: Path, questions: int, decisions: int) -> Workload:
    """PopQA's pairs: the first ones timed, the next ones known, those after them judged."""
    timed = questions * PAIRS_PER_QUESTION
    count = timed + _CALIBRATION_PAIRS + decisions
    pairs = real_pairs(data, tokenizer, VOCABULARY, count)
    known = timed + _CALIBRATION_PAIRS
    return Workload("real pairs of PopQA", pairs[:timed], pairs[timed:known], pairs[known:])
