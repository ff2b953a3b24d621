"""A rule-based decomposer for the questions of 2WikiMultihopQA, which follow a few templates."""

import re
from dataclasses import dataclass

from crag_core.compact.plan import plan_of
from crag_core.compact.types import Plan, SubQuestion

_ROLES = (
    "director|composer|performer|author|producer|founder|creator|editor|husband|wife|spouse|father|mother|"
    "son|daughter|child|sibling|brother|sister"
)
_IN_TWO = {
    "maternal grandmother": ("mother", "mother"),
    "maternal grandfather": ("mother", "father"),
    "paternal grandmother": ("father", "mother"),
    "paternal grandfather": ("father", "father"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
    "sibling-in-law": ("spouse", "sibling"),
    "brother-in-law": ("spouse", "brother"),
    "sister-in-law": ("spouse", "sister"),
    "child-in-law": ("child", "spouse"),
    "stepmother": ("father", "spouse"),
    "stepfather": ("mother", "spouse"),
    "grandchild": ("child", "child"),
    "uncle": ("father", "brother"),
    "aunt": ("father", "sister"),
}
_KIN = "|".join(sorted(_IN_TWO, key=len, reverse=True))
_KIN_QUESTION = re.compile(
    rf"^Who is (?:the (?P<kin>{_KIN}) of (?P<of>.+?)|(?P<owner>.+?)'s (?P<owned>{_KIN}))\?$"
)
_INNER = (
    re.compile(rf"the (?P<role>{_ROLES}) of (?P<kind>film|song|the film|the song)? ?"
               rf"(?P<who>(?:(?!the (?:{_ROLES}) of )[^?])+?)"
               r"(?= (?:received|won|got|graduate|study|work|die|died|born|from|is|was)\b|\?)"),
    re.compile(r"the company that published (?P<who>[^?]+?)(?= founded|\?)"),
    re.compile(rf"(?P<who>(?<=\b)[^?]+?)'s (?P<role>{_ROLES})\b"),
)  # fmt: skip
_LEADING = re.compile(
    r"^(?:(?:what is|where was|when is|when was) the (?:place|date) of (?:birth|death|burial) of |"
    r"what is the award that |(?:where|when) (?:was|did|is|does) |what nationality is |"
    r"which country |who is )",
    re.IGNORECASE,
)
_OUTER = (
    (re.compile(r"place of death of #1|where did #1 die", re.IGNORECASE), "Where did #1 die?"),
    (re.compile(r"place of birth of #1|where was #1 born", re.IGNORECASE), "Where was #1 born?"),
    (re.compile(r"place of burial of #1", re.IGNORECASE), "Where was #1 buried?"),
    (re.compile(r"date of birth of #1|was #1 born|#1's birthday", re.IGNORECASE), "When was #1 born?"),
    (re.compile(r"date of death of #1|when did #1 die", re.IGNORECASE), "When did #1 die?"),
    (re.compile(r"nationality|country #1 is from", re.IGNORECASE), "What is the nationality of #1?"),
    (re.compile(r"award", re.IGNORECASE), "Which award did #1 receive?"),
    (re.compile(r"work at", re.IGNORECASE), "Where did #1 work?"),
    (re.compile(r"graduate|study", re.IGNORECASE), "Where did #1 study?"),
    (re.compile(r"founded", re.IGNORECASE), "When was #1 founded?"),
)  # fmt: skip
_OPTIONS = re.compile(
    r"^(?:which|who|what|whose)[^,:]*[,:] (?P<first>.+?),? or (?P<second>[^?]+)\?$", re.I
)
_ASKED_OF_BOTH = (
    (re.compile(r"\bdirector\b", re.IGNORECASE), "Who is the director of {}?"),
    (re.compile(r"\bcomposer\b", re.IGNORECASE), "Who is the composer of {}?"),
    (re.compile(r"\bperformer\b", re.IGNORECASE), "Who is the performer of {}?"),
    (re.compile(r"born|older|younger", re.IGNORECASE), "When was {} born?"),
    (re.compile(r"died|lived", re.IGNORECASE), "When did {} die?"),
    (re.compile(r"came out|released|earlier|first", re.IGNORECASE), "When was {} released?"),
)


@dataclass(frozen=True, slots=True)
class _Inner:
    """The phrase that is looked up first, where it stands, and the question for it."""

    start: int
    end: int
    question: str


def rule_plan(question: str) -> Plan:
    """The plan of a question by its template; a question of no known one is its own plan."""
    kin = _KIN_QUESTION.match(question)
    if kin is not None:
        first, second = _IN_TWO[kin["kin"] or kin["owned"]]
        name = kin["of"] or kin["owner"]
        return plan_of(
            [
                SubQuestion(f"Who is the {first} of {name}?"),
                SubQuestion(f"Who is the {second} of #1?", (0,)),
            ]
        )
    options = _OPTIONS.search(question)
    if options is not None:
        return _of_both(question, [options["first"].strip(), options["second"].strip()])
    inner = _inner(question)
    if inner is None or len(question) - (inner.end - inner.start) < len("Who is ?"):
        return plan_of([SubQuestion(question)])
    outer = f"{question[: inner.start]}#1{question[inner.end :]}"
    if outer.strip() in ("Who is #1?", "Who was #1?"):
        return plan_of([SubQuestion(question)])
    outer = next((text for pattern, text in _OUTER if pattern.search(outer)), outer)
    return plan_of([SubQuestion(inner.question), SubQuestion(outer, (0,))])


def _inner(question: str) -> _Inner | None:
    for pattern in _INNER:
        match = pattern.search(question)
        if match is None:
            continue
        parts = match.groupdict()
        start, who = match.start(), parts["who"]
        leading = _LEADING.match(who)
        if leading is not None:
            start, who = start + leading.end(), who[leading.end() :]
        if "role" not in parts:
            return _Inner(start, match.end(), f"Which company published {who}?")
        kind = parts.get("kind") or ""
        named = f"{kind} {who}".strip()
        return _Inner(start, match.end(), f"Who is the {parts['role']} of {named}?")
    return None


def _of_both(question: str, options: list[str]) -> Plan:
    """The same about each of two things; what is asked of directors needs them first."""
    asked = [text for pattern, text in _ASKED_OF_BOTH if pattern.search(question)]
    if not asked:
        return plan_of([SubQuestion(f"What is {option}?") for option in options])
    sub_questions = [SubQuestion(asked[0].format(option)) for option in options]
    if len(asked) > 1 and asked[0].startswith("Who is the"):
        sub_questions += [
            SubQuestion(asked[1].format(f"#{place + 1}"), (place,)) for place in range(len(options))
        ]
    return plan_of(sub_questions)
