"""Templates of English questions: each finds the entity that a question asks something of."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from crag_core.queries.kinds import (
    ANY,
    AUTHOR,
    CAPITAL,
    COMPOSER,
    DIRECTOR,
    PERSON,
    PRODUCER,
    SCREENWRITER,
    QuestionKind,
    kind_of,
)
from crag_core.queries.wording import without_article

_IS = r"(?:is|was|are|were|['\u2019]s)"
_DO = r"(?:do|does|did)"
_VERBS = (
    "directed|composed|wrote|writes|created|produced|authored|penned|painted|sculpted|"
    "founded|co-founded|"
    "established|invented|discovered|designed|built|developed|published|recorded|sang|sings|performed|"
    "performs|starred in|stars in|star in|played in|plays in|acted in|appears in|narrated|illustrated|"
    "edited|translated|co-wrote|co-directed|won|killed|assassinated|married|owns|runs|leads|led|"
    "wrote and directed|voiced|played|plays|choreographed|filmed|scored|hosts|hosted|made|"
    "released|formed"
)
_NOUN = (
    "film|movie|documentary|novel|novella|book|short story|poem|play|song|single|album|ep|opera|musical|"
    "band|group|tv series|television series|tv show|series|show|sitcom|video game|game|episode|symphony|"
    "magazine|newspaper|painting|character|company|actor|actress|singer|footballer|politician|author|"
    "town|village|city|district|river|mountain|airline|airport|university|school"
)
_LEADING_NOUN = re.compile(
    rf"^(?:the )?(?:(?P<year>1[5-9]\d\d|20\d\d) )?(?P<noun>{_NOUN})s?,? (?:called |named |"
    rf"titled |entitled )?"
    r"(?=[\"'\u201c\u2018A-Z0-9\u00c0-\u00de])",
    re.IGNORECASE,
)
_NESTED = re.compile(
    r"^(?:the |an? )?(?P<property>[a-z][\w -]{2,40}?) (?:of|for|in|behind|from) (?P<rest>.+)$"
)
_LEADS_ON = (PERSON, DIRECTOR, AUTHOR, COMPOSER, SCREENWRITER, PRODUCER, CAPITAL)
"""Kinds whose property is an entity itself, of which something else may be asked."""


_FIRST_OF_TWO, _BOTH_OF_TWO = "first of two", "both of two"
OF_TWO = (_FIRST_OF_TWO, _BOTH_OF_TWO)
"""Templates with two entities, both of which are needed."""

_YES_OR_NO = "is X a P"
_LOWER_END = re.compile(r"(?: [a-z]+)+$")


@dataclass(frozen=True, slots=True)
class Matched:
    """An entity with the property asked of it, the template's name, and qualifiers that the "
    "question gave."""

    entity: str
    kind: QuestionKind
    reason: str
    qualifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Template:
    name: str
    pattern: re.Pattern[str]


def _template(name: str, pattern: str) -> _Template:
    return _Template(name, re.compile(f"^{pattern}$", re.IGNORECASE))


_LOWER = r"(?-i:[a-z][a-z -]*)"
_DONE = (
    r"(?-i:[a-z]+ed|born|found|set|held|made|built|spoken|written|from|in|on|part of|a part "
    r"of|an example of|"
    r"born in|located in|known|sung|shot|won|fought|grown|taught)(?-i: in| at| on| for| by| as| to)?"
)
_PREPOSITION = r"(?:(?:in|at|on|from|to|of|for|with|by|under|during|after|into|through|near) )?"

_TEMPLATES = (
    _template(
        _FIRST_OF_TWO,
        r"(?:which|what|who|whose)\b(?P<property>.*?)[,:] ?(?P<a>[^,]+?),? or (?P<b>[^,]+)",
    ),
    _template(
        _FIRST_OF_TWO,
        r"(?:which|what|who|whose)\b(?P<property>.*?\b(?:first|earlier|later|older|younger|taller|"
        r"longer|"
        r"shorter|bigger|larger|smaller|recently|last)) (?P<a>.+?) or (?P<b>.+)",
    ),
    _template(_FIRST_OF_TWO, r"between (?P<a>.+?) and (?P<b>.+?), (?P<property>.+)"),
    _template(
        _BOTH_OF_TWO,
        rf"(?:{_IS}|{_DO}|have|has) both (?P<a>.+?) and (?P<b>.+?) (?P<property>(?-i:[a-z]).*)",
    ),
    _template(
        _BOTH_OF_TWO,
        rf"(?:{_IS}|{_DO}|have|has) (?P<a>.+?) and (?P<b>.+?) (?P<property>(?-i:both|located|from|"
        rf"of the|"
        r"in the|the same|have|share|born|directed|released|based|considered|members|films?|"
        r"bands?|cities|"
        r"towns?|magazines?|genera|plants|types|native|known|primarily|in|on|a|an|not|work|play)\b.*)",
    ),
    _template("X stands for", rf"what {_DO} (?P<entity>.+?) (?-i:stand for|mean|refer to|do)"),
    _template(
        "what X is the P of",
        rf"what {_IS} (?P<entity>.+?) (?-i:the|an?) (?P<property>\w+) (?-i:of|for|in)",
    ),
    _template(
        "X plays P",
        rf"{_PREPOSITION}(?:what|which) (?P<property>{_LOWER}) {_DO} (?P<entity>.+?) "
        r"(?-i:play|speak|belong|practi[cs]e|follow|represent|work|live|compete|come|fall|lie|use|have|"
        r"apply|occur|grow|cause|contain|consist|run|flow|stand|own|host|make|need)"
        r"(?-i: for| to| in| as| from| on| into| under)?",
    ),
    _template(
        "in which P is X",
        rf"{_PREPOSITION}(?:what|which) (?P<property>(?:Greek |Roman )?{_LOWER}?) {_IS} "
        rf"(?P<entity>.+?) {_DONE}",
    ),
    _template(
        "in which P did X",
        rf"{_PREPOSITION}(?:what|which) (?P<property>{_LOWER}?) {_DO} (?P<entity>.+?) "
        r"(?-i:die|end|begin|start|open|close|win|attend|join|live|serve|fight|happen|take place|"
        r"graduate|"
        r"retire|premiere|come out|become|leave|study|marry|write|direct|release|move)\b.*",
    ),
    _template(
        "in which P is X",
        rf"(?:in|at|on) (?:what|which) (?P<property>{_LOWER}?) {_IS} (?P<entity>.+)",
    ),
    _template(
        "what P is X",
        rf"(?:what|which) (?:kind |type |style )?(?:of )?(?P<property>{_LOWER}?) {_IS} "
        r"(?P<entity>(?!the (?:name|first|largest|most)\b).+)",
    ),
    _template(
        "where was X",
        rf"(?P<property>where|when|how) (?:{_IS}|{_DO}|(?:old|tall|long|high|deep|big|large|far|"
        rf"fast|heavy) {_IS}|"
        r"many people live in) (?P<entity>.+?)"
        r"(?-i: (?:die|come out|live|start|end|happen|take place|open|erupt|sink|win|fall|work|"
        r"begin|get|"
        rf"{_DONE}))?(?-i: in| at)?",
    ),
    _template(
        "X's P",
        rf"(?:what|who|where|when) {_IS} (?P<entity>(?!(?:the|an?) [a-z ]+ (?:of|for) "
        rf").+?)(?:['\u2019]s|(?<=s)['\u2019]) (?P<property>{_LOWER})",
    ),
    _template(
        "X's P",
        r"(?!(?:what|who|which|where|when|how|why|is|are|was|were|do|does|did|in) "
        rf")(?P<entity>[^ ]+(?: [^ ]+){{0,5}}?)(?:['\u2019]s|(?<=s)['\u2019]) "
        rf"(?P<property>{_LOWER})",
    ),
    _template(
        "P of X",
        rf"(?:what|who|whom|which) {_IS} (?:the |an? )?(?P<property>[\w -]+?) (?-i:of|for|behind|"
        rf"in|from) (?P<entity>.+)",
    ),
    _template(
        "who did X",
        rf"(?:who|which {_LOWER}?|what {_LOWER}?|by whom)(?: has| had| {_IS})? "
        rf"(?P<property>{_VERBS}) (?P<entity>.+)",
    ),
    _template(
        "X was done by",
        rf"(?:by )?(?:whom|who|what) {_IS} (?P<entity>.+?) (?P<property>{_VERBS})(?: by)?",
    ),
    _template("what is X", rf"(?:what|who|which)(?: exactly)? {_IS} (?P<entity>.+)"),
    _template(
        "define X",
        r"(?:please )?(?:tell me (?:more )?about|define|describe|explain|what about) "
        r"(?P<entity>.+)",
    ),
    _template(
        "name P of X",
        rf"(?:name|list|give me|find) (?:the |an? )?(?P<property>{_LOWER}?) (?:of|for|behind) "
        r"(?P<entity>.+)",
    ),
    _template(
        _YES_OR_NO,
        r"(?:is|are|was|were) (?P<entity>.+?) (?-i:an?|the|in|from|part of|located|older|younger|"
        r"still|alive|dead|made|really|ever|considered|married|born)\b.*",
    ),
    _template(
        "did X",
        rf"(?:{_DO}|has|have|can|could|will) (?P<entity>(?-i:[A-Z])[^ ]*(?: (?-i:[A-Z])[^ ]*)*) .*",
    ),
)  # fmt: skip


def matches(question: str) -> Iterator[Matched]:
    """Entities by the first template that fits a tidied question, best first; none when none does."""
    for template in _TEMPLATES:
        match = template.pattern.match(question)
        if match is None:
            continue
        groups = match.groupdict()
        asked = groups.get("property") or ""
        if "a" in groups:
            kind = kind_of(asked)
            yield from (_with_noun(_outer(groups[side]), kind, template.name) for side in ("a", "b"))
            return
        yield from _candidates(match, asked, template.name)
        return


def _has_name(words: str) -> bool:
    """Whether the words have a capitalised one that is no abbreviation such as CEO."""
    return any(word[:1].isupper() and not word.isupper() for word in words.split())


def _candidates(match: re.Match[str], asked: str, name: str) -> Iterator[Matched]:
    entity, kind = match["entity"], kind_of(asked)
    if name == _YES_OR_NO and not entity.islower():
        entity = _LOWER_END.sub("", entity)  # of `the Great Wall of China visible` the last is no name
    whole = match.string[match.start("property") :] if asked and name == "P of X" else ""
    if name == "X's P" and kind is ANY:  # `Schrödinger's cat` is no property of Schrödinger
        yield Matched(match.string[match.start("entity") :], ANY, "what is X")
    if name == "P of X" and kind is ANY and _has_name(asked):
        yield Matched(without_article(whole), ANY, "what is X")  # the Prince of Wales
        yield Matched(without_article(entity), kind, name)
        return
    inner = list(_nested(entity, kind, name))
    yield from inner
    if whole and kind is ANY and not any("in turn" in each.reason for each in inner):
        yield Matched(without_article(whole), ANY, "what is X")


def _nested(entity: str, kind: QuestionKind, name: str) -> Iterator[Matched]:
    """The innermost entity of `the religion of the author of X`; it is where a search must begin."""
    nested = _NESTED.match(entity)
    if nested and (inner := kind_of(nested["property"])) in _LEADS_ON:
        yield from _nested(nested["rest"], inner, f"{name}, of {nested['property']} in turn")
        return
    owner, possessive, rest = entity.rpartition("'s ")
    if possessive and owner and rest.islower() and kind_of(rest) in _LEADS_ON:
        yield Matched(without_article(owner), kind_of(rest), f"{name}, of {rest} in turn")
        return
    yield _with_noun(entity, kind, name)


def _with_noun(entity: str, kind: QuestionKind, name: str) -> Matched:
    """`the 1963 film The Hunt` is The Hunt, of which the question itself says what it is."""
    entity = entity.strip(' ,"“”')
    named = _LEADING_NOUN.match(entity)
    if named and named["noun"].islower() and (rest := entity[named.end() :].strip(" '\"“”‘’")):
        noun, year = named["noun"].lower(), named["year"]
        qualifiers = (f"{year} {noun}", noun) if year else (noun,)
        own = kind_of(noun.split()[-1])
        return Matched(rest, kind if kind is not ANY else own, name, qualifiers)
    return Matched(entity, kind, name)


def _outer(entity: str) -> str:
    return re.sub(r"^(?:the film|the movie|the band|either|both) ", "", entity.strip(" ,.:"))
