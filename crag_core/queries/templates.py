"""Templates of English questions: each finds the entity that a question asks something of."""

import re
from dataclasses import dataclass

FIRST_OF_TWO, BOTH_OF_TWO = "first of two", "both of two"
OF_TWO = (FIRST_OF_TWO, BOTH_OF_TWO)
"""Templates with two entities, both of which are needed."""

YES_OR_NO = "is X a P"
PROPERTY_OF = "P of X"
POSSESSIVE = "X's P"

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


@dataclass(frozen=True, slots=True)
class Template:
    """One form of question; its groups are `entity`, or `a` and `b`, and mostly `property`."""

    name: str
    pattern: re.Pattern[str]


def _template(name: str, pattern: str) -> Template:
    return Template(name, re.compile(f"^{pattern}$", re.IGNORECASE))


_LOWER = r"(?-i:[a-z][a-z -]*)"
_DONE = (
    r"(?-i:[a-z]+ed|born|found|set|held|made|built|spoken|written|from|in|on|part of|a part "
    r"of|an example of|"
    r"born in|located in|known|sung|shot|won|fought|grown|taught)(?-i: in| at| on| for| by| as| to)?"
)
_PREPOSITION = r"(?:(?:in|at|on|from|to|of|for|with|by|under|during|after|into|through|near) )?"

TEMPLATES = (
    _template(
        FIRST_OF_TWO,
        r"(?:which|what|who|whose)\b(?P<property>.*?)[,:] ?(?P<a>[^,]+?),? or (?P<b>[^,]+)",
    ),
    _template(
        FIRST_OF_TWO,
        r"(?:which|what|who|whose)\b(?P<property>.*?\b(?:first|earlier|later|older|younger|taller|"
        r"longer|"
        r"shorter|bigger|larger|smaller|recently|last)) (?P<a>.+?) or (?P<b>.+)",
    ),
    _template(FIRST_OF_TWO, r"between (?P<a>.+?) and (?P<b>.+?), (?P<property>.+)"),
    _template(
        BOTH_OF_TWO,
        rf"(?:{_IS}|{_DO}|have|has) both (?P<a>.+?) and (?P<b>.+?) (?P<property>(?-i:[a-z]).*)",
    ),
    _template(
        BOTH_OF_TWO,
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
        POSSESSIVE,
        rf"(?:what|who|where|when) {_IS} (?P<entity>(?!(?:the|an?) [a-z ]+ (?:of|for) "
        rf").+?)(?:['\u2019]s|(?<=s)['\u2019]) (?P<property>{_LOWER})",
    ),
    _template(
        POSSESSIVE,
        r"(?!(?:what|who|which|where|when|how|why|is|are|was|were|do|does|did|in) "
        rf")(?P<entity>[^ ]+(?: [^ ]+){{0,5}}?)(?:['\u2019]s|(?<=s)['\u2019]) "
        rf"(?P<property>{_LOWER})",
    ),
    _template(
        PROPERTY_OF,
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
        YES_OR_NO,
        r"(?:is|are|was|were) (?P<entity>.+?) (?-i:an?|the|in|from|part of|located|older|younger|"
        r"still|alive|dead|made|really|ever|considered|married|born)\b.*",
    ),
    _template(
        "did X",
        rf"(?:{_DO}|has|have|can|could|will) (?P<entity>(?-i:[A-Z])[^ ]*(?: (?-i:[A-Z])[^ ]*)*) .*",
    ),
)  # fmt: skip
