"""The plan normaliser: whatever a model wrote becomes a plan without cycles, within limits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from crag_core.compact import references
from crag_core.compact.lenient_json import read_json
from crag_core.compact.plan_repair import COMPARES, with_missing_part
from crag_core.compact.settings import PlanLimits
from crag_core.compact.types import Plan, SubQuestion

_TEXT_KEYS = ("q", "question", "sub_question", "subquestion", "sub-question", "text", "query")
_LABEL_KEYS = ("index", "id", "number", "step")
_REFERENCE_KEYS = ("ref", "refs", "depends_on", "dependencies", "reference", "references", "parents")
_MAX_ITEMS = 64
_MAX_CHARACTERS = 400
_NUMBER = re.compile(r"-?\d{1,4}")
_WORD = re.compile(r"\w+")
_COMPARES_TWO = re.compile(r"\b(of the two|of (these|those|them)|the (two|both))\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry as it was written: its text, its own label, and the labels that it refers to."""

    text: str
    label: int | None
    refers_to: tuple[int, ...]


def normalise_plan(written: str, question: str, limits: PlanLimits) -> Plan:
    """The plan in a completion; never raises, whatever the text.

    Where nothing can be read, the question is the plan, which is marked malformed. References may be
    numbers counted from 0 or 1, lists of them, `#k`, `[answer to Qk]`, brackets, or words that point
    back. Duplicates and copies of the question go, cycles are broken at their backward edge, and a
    part of the question that no sub-question asks is added.
    """
    items = [item for item in map(_item, _entries(read_json(written))) if item is not None]
    if not items:
        return plan_of([SubQuestion(question)], is_malformed=True)
    parsed = _merged([_with_marks(position, items) for position in range(len(items))])
    parsed = _without_copies(parsed, question)
    acyclic = _without_cycles(_only(parsed, range(min(len(parsed), limits.max_sub_questions))))
    whole = _comparisons_marked(acyclic)
    if len(parsed) < limits.max_sub_questions:
        whole = with_missing_part(whole, question)
    plan = plan_of(whole)
    was_cut = len(parsed) > len(acyclic) or len(plan.levels) > limits.max_levels
    if len(plan.levels) > limits.max_levels:
        shallow = [position for level in plan.levels[: limits.max_levels] for position in level]
        plan = plan_of(_only(plan.sub_questions, shallow))
    return replace(plan, was_cut=was_cut)


def plan_of(sub_questions: Sequence[SubQuestion], *, is_malformed: bool = False) -> Plan:
    """A plan of sub-questions without cycles, its levels found by Kahn's algorithm."""
    waiting = {
        position: set(sub_question.references)
        for position, sub_question in enumerate(sub_questions)
        if not sub_question.is_comparison
    }
    levels: list[tuple[int, ...]] = []
    while ready := tuple(position for position, needs in waiting.items() if not needs & set(waiting)):
        levels.append(ready)
        for position in ready:
            del waiting[position]
    return Plan(tuple(sub_questions), tuple(levels), is_malformed=is_malformed)


def _entries(value: object) -> list[object]:
    """The list of entries in whatever JSON there is."""
    match value:
        case list():
            return value[:_MAX_ITEMS]
        case dict() if any(key in value for key in _TEXT_KEYS) and not any(
            isinstance(part, list | dict) for key, part in value.items() if key not in _REFERENCE_KEYS
        ):
            return [value]
        case dict():
            lists = [part for part in value.values() if isinstance(part, list) and part]
            return (lists[0] if lists else list(value.values()))[:_MAX_ITEMS]
        case _:
            return []


def _item(entry: object) -> _Item | None:
    if isinstance(entry, str):
        return _Item(text, None, ()) if (text := _text(entry)) else None
    if not isinstance(entry, dict):
        return None
    fields = {str(key).strip().lower(): part for key, part in entry.items()}
    text = next((found for key in _TEXT_KEYS if (found := _text(fields.get(key)))), "")
    if not text:
        return None
    labels = [number for key in _LABEL_KEYS for number in _numbers(fields.get(key))]
    refers_to = [number for key in _REFERENCE_KEYS for number in _numbers(fields.get(key))]
    return _Item(text, labels[0] if labels else None, tuple(dict.fromkeys(refers_to)))


def _text(value: object) -> str:
    """A question's text: one line, without what is no character, and not endless."""
    if not isinstance(value, str):
        return ""
    text = " ".join(value[: 4 * _MAX_CHARACTERS].split())[:_MAX_CHARACTERS]
    return text if _WORD.search(text) else ""


def _numbers(value: object) -> list[int]:
    match value:
        case bool():
            return []
        case int():
            return [value]
        case float():
            return [int(value)] if value.is_integer() and abs(value) < 10_000 else []
        case str():
            return [int(number) for number in _NUMBER.findall(value[:200])]
        case list():
            return [number for part in value[:_MAX_ITEMS] for number in _numbers_flat(part)]
        case _:
            return []


def _numbers_flat(value: object) -> list[int]:
    return [] if isinstance(value, list) else _numbers(value)


def _with_marks(position: int, items: Sequence[_Item]) -> SubQuestion:
    """One item with its references as positions, and as `#k` in its text."""
    places = _places(items)
    item = items[position]
    mentioned = references.numbers(item.text)
    text = references.renumbered(
        item.text,
        {number: places[number] for number in mentioned if places.get(number, position) != position},
    )
    found = [places[number] for number in (*item.refers_to, *mentioned) if number in places]
    for words in references.bracketed(text):
        if position > 0:
            place = _best_described(words, items[:position])
            text = references.with_bracket_as(text, words, place)
            found.append(place)
    if not found and position > 0 and references.has_anaphor(text):
        found.append(position - 1)
    return SubQuestion(text, tuple(dict.fromkeys(place for place in found if place != position)))


def _places(items: Sequence[_Item]) -> dict[int, int]:
    """From the numbers that references use to positions: by label, or counted from 0 or from 1.

    That way of counting is taken under which the fewest references point forward or nowhere.
    """
    labels = [item.label for item in items]
    by_label = {label: position for position, label in enumerate(labels) if label is not None}
    ways = [{position + base: position for position in range(len(items))} for base in (0, 1)]
    if len(by_label) == len(items):
        ways.insert(0, by_label)

    def misled(places: dict[int, int]) -> int:
        return sum(
            places.get(number, position) >= position
            for position, item in enumerate(items)
            for number in (*item.refers_to, *references.numbers(item.text))
        )

    return min(ways, key=misled)


def _best_described(words: str, earlier: Sequence[_Item]) -> int:
    """The earlier item that shares most words with a bracket; the nearest when none does."""
    wanted = set(_key(words).split())
    shared = [len(wanted & set(_key(item.text).split())) for item in earlier]
    return max(range(len(earlier)), key=lambda position: (shared[position], position))


def _merged(sub_questions: Sequence[SubQuestion]) -> list[SubQuestion]:
    """The sub-questions without duplicates; what referred to one refers to the first of its kind."""
    first: dict[tuple[str, tuple[int, ...]], int] = {}
    place_of = {
        position: first.setdefault((_key(sub.text), sub.references), position)
        for position, sub in enumerate(sub_questions)
    }
    return _only([_moved(sub, place_of) for sub in sub_questions], first.values())


def _without_copies(sub_questions: list[SubQuestion], question: str) -> list[SubQuestion]:
    """The sub-questions without those that only repeat the question, unless nothing else is left."""
    asked = _key(question)
    others = [place for place, sub in enumerate(sub_questions) if _key(sub.text) != asked]
    return _only(sub_questions, others or [0])


def _only(sub_questions: Sequence[SubQuestion], kept: Iterable[int]) -> list[SubQuestion]:
    """Some of the sub-questions, in order, without what they referred to of the others."""
    place_of = {old: position for position, old in enumerate(sorted(kept))}
    return [_moved(sub_questions[old], place_of) for old in place_of]


def _moved(sub_question: SubQuestion, place_of: Mapping[int, int]) -> SubQuestion:
    """The sub-question with its references to positions as they are now, and none to those gone."""
    there = (place_of[place] for place in sub_question.references if place in place_of)
    return replace(
        sub_question,
        text=references.renumbered(
            sub_question.text, {old + 1: position for old, position in place_of.items()}
        ),
        references=tuple(dict.fromkeys(there)),
    )


def _without_cycles(sub_questions: Sequence[SubQuestion]) -> list[SubQuestion]:
    """The sub-questions without the references that lead back to what needs them, found in order."""
    allowed: dict[int, tuple[int, ...]] = {}
    under_way: set[int] = set()

    def visit(position: int) -> None:
        under_way.add(position)
        kept = []
        for place in sub_questions[position].references:
            if place in under_way:
                continue
            if place not in allowed:
                visit(place)
            kept.append(place)
        under_way.remove(position)
        allowed[position] = tuple(kept)

    for position in range(len(sub_questions)):
        if position not in allowed:
            visit(position)
    return [replace(sub, references=allowed[place]) for place, sub in enumerate(sub_questions)]


def _comparisons_marked(sub_questions: Sequence[SubQuestion]) -> list[SubQuestion]:
    """Comparisons of several answers, on which nothing depends, are marked for the synthesis."""
    needed = {place for sub in sub_questions for place in sub.references}

    def compares(position: int, sub: SubQuestion) -> bool:
        if position == 0 or position in needed:
            return False
        several = len(sub.references) > 1 and COMPARES.search(sub.text)
        return bool(several or (position > 1 and _COMPARES_TWO.search(sub.text)))

    return [replace(sub, is_comparison=compares(place, sub)) for place, sub in enumerate(sub_questions)]


def _key(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))
