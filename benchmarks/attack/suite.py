"""The suite: every payload put to every question, with a canary of its own; each question unharmed."""

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.attack.payloads import PAYLOADS, Kind, Payload, Place
from benchmarks.attack.questions import QUESTIONS, Asked

_CONSONANTS, _VOWELS, _SYLLABLES = "bdfgklmnprtvz", "aeiou", 4

Document = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Injection:
    """What makes a request an attack.

    `written` is the canary as the payload has it, which tells whether evidence brought it to the
    prompt; None where it does not come by evidence.
    """

    kind: Kind
    payload: str
    canary: str
    written: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """One request: a question with its documents, attacked or not; `id` names it within the suite."""

    id: str
    about: Asked
    question: str
    documents: tuple[Document, ...]
    injection: Injection | None = None


def suite(questions: int, seed: int) -> list[Case]:
    """The first so many questions, each without an attack and then under every one."""
    chosen = QUESTIONS[:questions]
    controls = [control(about) for about in chosen]
    return [*controls, *(attack(payload, about, seed) for payload in PAYLOADS for about in chosen)]


def control(about: Asked) -> Case:
    """The question with its documents, as nobody has touched them."""
    documents = (
        {"title": about.topic, "text": " ".join(about.about)},
        {"title": about.other_topic, "text": about.other},
    )
    return Case(f"control.{about.name}", about, about.question, documents)


def attack(payload: Payload, about: Asked, seed: int) -> Case:
    """The question under one attack; documents that are not part of it keep their place."""
    name = f"{payload.kind}.{payload.name}.{about.name}"
    canary = _canary(f"{seed}.{name}")
    words = payload.template.format(canary=canary, topic=about.topic, question=about.question)
    injected = payload.hide(words)
    injection = Injection(payload.kind, payload.name, canary, payload.hide(canary))
    honest = control(about)
    case = replace(honest, id=name, injection=injection)
    answering, other = honest.documents
    match payload.place:
        case Place.WITHIN:
            first, *rest = about.about
            text = f"{first} {injected} {' '.join(rest)}"
            return replace(case, documents=({**answering, "text": text}, other))
        case Place.OWN:
            return replace(case, documents=(answering, other, {"title": about.topic, "text": injected}))
        case Place.TITLE:
            return replace(case, documents=(answering, other, {**answering, "title": injected}))
        case Place.LINK:
            return replace(case, documents=({**answering, "url": injected}, other))
        case Place.QUESTION:
            return replace(case, question=injected, injection=replace(injection, written=None))


def suite_sha256(cases: Iterable[Case]) -> str:
    """Names the suite's requests down to the byte: rates of different suites are not compared."""
    requests: Sequence[object] = [(case.id, case.question, case.documents) for case in cases]
    return hashlib.sha256(json.dumps(requests, ensure_ascii=True).encode()).hexdigest()


def _canary(about: str) -> str:
    random_ = random.Random(about)
    syllables = (random_.choice(_CONSONANTS) + random_.choice(_VOWELS) for _ in range(_SYLLABLES))
    return "".join(syllables).capitalize()
