"""Templates of English questions: each finds the entity that a question asks something of."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from crag_core.queries.kinds import ANY, QuestionKind, kind_of
from crag_core.queries.wording import without_article

_IS = r"(?:is|was|are|were|['\u2019]s)"
_DO = r"(?:do|does|did)"
_VERBS = (
    "directed|composed|wrote|writes|created|produced|authored|penned|painted|sculpted|founded|co-founded|"
    "established|invented|discovered|designed|built|developed|published|recorded|sang|sings|performed|"
    "performs|starred in|stars in|star in|played in|plays in|acted in|appears in|narrated|illustrated|"
    "edited|translated|co-wrote|co-directed|won|killed|assassinated|married|owns|runs|leads|led|"
    "wrote and directed|voiced|played|plays|choreographed|filmed|scored|hosts|hosted|made|released|formed"
)
_NOUN = (
    "film|movie|documentary|novel|novella|book|short story|poem|play|song|single|album|ep|opera|musical|"
    "band|group|tv series|television series|tv show|series|show|sitcom|video game|game|episode|symphony|"
    "magazine|newspaper|painting|character|company|actor|actress|singer|footballer|politician|author|"
    "town|village|city|district|river|mountain|airline|airport|university|school"
)
_LEADING_NOUN = re.compile(
    rf"^(?:the )?(?:(?P<year>1[5-9]\d\d|20\d\d) )?(?P<noun>{_NOUN})s?,? (?:called |named |titled |entitled )?"
    r"(?=[\"'\u201c\u2018A-Z0-9\u00c0-\u00de])",
    re.IGNORECASE,
)
_LEADING_NOUN_SAFE = re.compile(r"^(?:the )?(?:\d{4} )?(?P<noun>[a-z][a-z ]*?) (?=[^a-z])")
_NESTED = re.compile(
    r"^(?:the |an? )?(?P<property>[a-z][\w -]{2,40}?) (?:of|for|in|behind|from) (?P<rest>.+)$"
)
_TITLE_NUMBER = re.compile(r"^\d")


@dataclass(frozen=True, slots=True)
class Matched:
    """An entity with the property asked of it, the template's name, and qualifiers that the question gave."""

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


_TEMPLATES = (
    _template("first of two", r"(?:which|what|who|whose)\b(?P<property>.*?)[,:] ?(?P<a>[^,]+?),? or (?P<b>[^,]+)"),
    _template(
        "first of two",
        r"(?:which|what|who|whose)\b(?P<property>.*?\b(?:first|earlier|later|older|younger|taller|longer|"
        r"shorter|bigger|larger|smaller|recently|last)) (?P<a>.+?) or (?P<b>.+)",
    ),
    _template("first of two", r"between (?P<a>.+?) and (?P<b>.+?), (?P<property>.+)"),
    _template(
        "both of two",
        rf"(?:{_IS}|{_DO}|have|has) (?:both )?(?P<a>.+?) and (?P<b>.+?) (?P<property>(?:both|located|from|of the|"
        r"in the|the same|have|share|born|both|directed|released|based|considered|American|British|members|"
        r"films?|bands?|cities|towns?|magazines?|genera|plants|types|native|known|primarily|in|on|a|an)\b.*)",
    ),
    _template("X stands for", rf"what {_DO} (?P<entity>.+?) (?:stand for|mean|refer to|do)"),
    _template("what X is the P of", rf"what {_IS} (?P<entity>.+?) (?:the|an?) (?P<property>\w+) (?:of|for|in)"),
    _template(
        "X plays P",
        rf"(?:what|which) (?P<property>[\w -]+?) {_DO} (?P<entity>.+?) "
        r"(?:play|speak|belong|practi[cs]e|follow|represent|work|live|compete|come|fall|lie|use)"
        r"(?: (?:for|to|in|as|from|on|into|under))?",
    ),
    _template(
        "in which P is X",
        rf"(?:in |at |on |from |to |of |for )?(?:what|which) (?P<property>[\w -]+?) {_IS} (?P<entity>.+?) "
        r"(?:located|situated|found|born|buried|based|released|published|founded|set|held|made|built|spoken|"
        r"written|died|from|in|on|part of|a part of|an example of|born in|located in)(?: in| at| on)?",
    ),
    _template(
        "in which P did X",
        rf"(?:in |at |on |from |to |of |for )?(?:what|which) (?P<property>year|city|country|place|town|month|date|"
        rf"decade|century|state|day|age|school|university|party|war) {_DO} (?P<entity>.+?) "
        r"(?:die|end|begin|start|open|close|win|attend|join|live|serve|fight|happen|take place|graduate|"
        r"retire|premiere|come out|become|leave|study)\b.*",
    ),
    _template("in which P is X", rf"(?:in|at|on) (?:what|which) (?P<property>[\w -]+?) {_IS} (?P<entity>.+)"),
    _template("what genre is X", rf"what (?:kind |type |style )?(?:of )?(?P<property>genre|music|band|film|book|movie|animal) {_IS} (?P<entity>.+)"),
    _template(
        "where was X",
        rf"(?P<property>where|when|how) (?:{_IS}|{_DO}|old {_IS}|tall {_IS}|long {_IS}|high {_IS}|deep {_IS}|"
        rf"big {_IS}|large {_IS}|many people live in) (?P<entity>.+?)"
        r"(?: (?:located|situated|born|buried|based|die|died|released|published|founded|invented|discovered|"
        r"built|come out|first released|established|assassinated|live|start|end|happen|take place|married|"
        r"open|opened|made|filmed|set|found|erupt|sink|win|fall|work|spoken|begin))?(?: in| at)?",
    ),
    _template("X's P", rf"(?:what|who|where|when) {_IS} (?P<entity>.+?)(?:['\u2019]s|(?<=s)['\u2019]) (?P<property>[a-z][a-z -]+)"),
    _template("X's P", r"(?P<entity>[^ ]+(?: [^ ]+){0,5}?)(?:['\u2019]s|(?<=s)['\u2019]) (?P<property>[a-z][a-z ]+)"),
    _template(
        "P of X",
        rf"(?:what|who|whom|which) {_IS} (?:the |an? )?(?P<property>[\w -]+?) (?:of|for|to|behind|in|from) (?P<entity>.+)",
    ),
    _template("who did X", rf"(?:who|which \w+|what \w+|by whom)(?: has| had| {_IS})? (?P<property>{_VERBS}) (?P<entity>.+)"),
    _template("X was done by", rf"(?:by )?(?:whom|who|what) {_IS} (?P<entity>.+?) (?P<property>{_VERBS})(?: by)?"),
    _template("what is X", rf"(?:what|who|which)(?: exactly)? {_IS} (?P<entity>.+)"),
    _template("define X", r"(?:please )?(?:tell me (?:more )?about|define|describe|explain|what about|who) (?P<entity>.+)"),
    _template("name P of X", r"(?:name|list|give me|find) (?:the |an? )?(?P<property>[\w -]+?) (?:of|for|behind) (?P<entity>.+)"),
    _template("is X a P", r"(?:is|are|was|were) (?P<entity>.+?) (?:an?|the|in|from|part of|located|older|younger|still|alive|dead|made|really|ever) .*"),
    _template("did X", rf"(?:{_DO}|has|have|can|could|will) (?P<entity>[A-Z][^ ]*(?: [A-Z][^ ]*)*) .*"),
)  # fmt: skip


def matches(question: str) -> Iterator[Matched]:
    """Entities by the first template that fits a tidied question, best first; none when none does."""
    for template in _TEMPLATES:
        match = template.pattern.match(question)
        if match is None:
            continue
        groups = match.groupdict()
        asked = groups.get("property") or ""
        if template.name == "is X a P" and len(groups["entity"].split()) > 8:
            continue
        if "a" in groups:
            kind = kind_of(asked)
            yield from (_with_noun(_outer(groups[side]), kind, template.name) for side in ("a", "b"))
            return
        yield from _candidates(match, asked, template.name)
        return


def _candidates(match: re.Match[str], asked: str, name: str) -> Iterator[Matched]:
    entity, kind = match["entity"], kind_of(asked)
    whole = match.string[match.start("property") :] if asked and name == "P of X" else ""
    if name == "X's P" and kind is ANY:  # `Schrödinger's cat` is no property of Schrödinger
        yield Matched(match.string[match.start("entity") :], ANY, "what is X")
    if name == "P of X" and kind is ANY and any(word[:1].isupper() for word in asked.split()):
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
    if nested and (inner := kind_of(nested["property"])) is not ANY:
        yield from _nested(nested["rest"], inner, f"{name}, of {nested['property']} in turn")
        return
    owner, possessive, rest = entity.rpartition("'s ")
    if possessive and owner and rest.islower() and kind_of(rest) is not ANY:
        yield Matched(without_article(owner), kind_of(rest), f"{name}, of {rest} in turn")
        return
    yield _with_noun(entity, kind, name)


def _with_noun(entity: str, kind: QuestionKind, name: str) -> Matched:
    """`the 1963 film The Hunt` is The Hunt, of which the question itself says what it is."""
    entity = entity.strip(" ,\"“”")
    named = _LEADING_NOUN.match(entity)
    if named and named["noun"].islower() and (rest := entity[named.end() :].strip(" '\"“”‘’")):
        noun, year = named["noun"].lower(), named["year"]
        qualifiers = (f"{year} {noun}", noun) if year else (noun,)
        own = kind_of(noun.split()[-1])
        return Matched(rest, kind if kind is not ANY else own, name, qualifiers)
    return Matched(entity, kind, name)


def _outer(entity: str) -> str:
    return re.sub(r"^(?:the film|the movie|the band|either|both) ", "", entity.strip(" ,.:"))
