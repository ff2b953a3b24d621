"""Names in a text without a template: what stands in quotes, and runs of capitalised words."""

import re
from collections.abc import Iterator

from crag_core.queries.wording import (
    AUXILIARIES,
    FOREIGN_QUESTION_WORDS,
    QUESTION_WORDS,
    STOP_WORDS,
    word_set,
)

_QUOTED = re.compile(
    r'"([^"]{2,120})"|\u201c([^\u201d]{2,120})\u201d|\u201e([^\u201c\u201d]{2,120})[\u201c\u201d]'
    r"|\u00ab\s*([^\u00bb]{2,120}?)\s*\u00bb|[\u300a\u3008]([^\u300b\u3009]{1,120})[\u300b\u3009]"
    r"|[\u300c\u300e]([^\u300d\u300f]{1,120})[\u300d\u300f]"
    r"|(?<![\w\u2019'])'([^']{2,120})'(?!\w)"
)
_TOKEN = re.compile(r"[^\s,;:()?\"\u201c\u201d]+|\([^()]*\)|[,;:?]")
_CONNECTORS = word_set(
    "of the and & in on for de la le les el los las da do dos das di du des del della van "
    "der den von und et y e i a al bin ibn und to at with upon from vs"
)
_SKIPPED_FIRST = STOP_WORDS | QUESTION_WORDS | AUXILIARIES | FOREIGN_QUESTION_WORDS | {"both", "between"}
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_INITIAL = re.compile(r"^(?:\w\.)+$|^(?:Jr|Sr|St|Dr|Mr|Mrs|Ms|No|Mt|Ft|Inc)\.$")
_LONGEST_RUN_WORDS = 14

_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_ASIAN_PARTICLES = re.compile(
    r"的?(?:作者|导演|導演|首都|职业|職業|国籍|國籍|作曲家|父亲|母亲|妻子|丈夫|主角)?(?:是|在)?"
    r"(?:什么时候|什麼時候|什么地方|什么|什麼|哪一个|哪个|哪國|哪国|哪里|哪裡|哪年|哪|谁|誰|几|幾|多少|为什么|吗|嗎|呢)[^的]*$"
    r"|^(?:谁|誰|什么|什麼|哪个|哪部|哪位|哪)(?:是|写了|寫了|创作了|發明了|发明了|导演了|執導了)?"
    r"|(?:の(?:作者|監督|首都|職業|国籍|作曲家|父|母|妻|夫|主人公))?"
    r"(?:は|が|って)?(?:何|誰|だれ|どこ|いつ|どの|なぜ|どう|いくつ|どんな)[^の]*$"
    r"|(?:は|とは)?(?:何)?(?:ですか|でしょうか|ですか)[\u3002?？]*$|とは$|^誰が|を(?:書|作|監督)\S*$"
    r"|(?:의\s*(?:작가|감독|수도|직업|국적))?(?:은|는|이|가)?\s*(?:누구|무엇|어디|언제|왜)\S*$"
    r"|\s*(?:누가|누구)\S*$"
)


def quoted_names(text: str) -> list[str]:
    """What stands in quotation marks of any language, in order."""
    found = (next(filter(None, match.groups())) for match in _QUOTED.finditer(text))
    return list(dict.fromkeys(name.strip(" ,.") for name in found if name.strip(" ,.")))


def capitalised_names(text: str) -> list[str]:
    """Runs of capitalised words, with the small words between them; a question word begins none.

    >>> capitalised_names("Were Scott Derrickson and Ed Wood of the same nationality")
    ['Scott Derrickson', 'Ed Wood']
    >>> capitalised_names("did the University of Oxford beat Yale")
    ['University of Oxford', 'Yale']
    """
    names = []
    for run in _runs(text):
        name = (
            _POSSESSIVE.sub("", " ".join(run)).strip(" .&-") if not _ends_initial(run) else " ".join(run)
        )
        if len(name) > 1:
            names += _split_at_and(name)
    return list(dict.fromkeys(names))


def asian_topic(text: str) -> str | None:
    """The topic of a Chinese, Japanese or Korean question: what is left without its question words.

    >>> asian_topic("東京はどこですか")
    '東京'
    >>> asian_topic("Who wrote Dune") is None
    True
    """
    if not _IDEOGRAPH.search(text):
        return None
    topic = _ASIAN_PARTICLES.sub("", text).strip(" 、，。？?の的는은이가")
    return topic or None


def _runs(text: str) -> Iterator[list[str]]:
    run: list[str] = []
    gap: list[str] = []
    tokens = _TOKEN.findall(text)
    for position, token in enumerate([*tokens, ","]):
        if _begins_name(token) and not (position == 0 and token.casefold() in _SKIPPED_FIRST):
            run, gap = ([*run, *gap, token], []) if run else ([token], [])
            if _POSSESSIVE.search(token) and token[-1] == "s":  # the owner is a name of its own
                yield run
                run = []
        elif run and token.startswith("(") and not gap:
            run.append(token)
        elif run and token.casefold() in _CONNECTORS and len(gap) < 3:
            gap.append(token)
        elif run:
            yield run[:_LONGEST_RUN_WORDS]
            run, gap = [], []


def _begins_name(token: str) -> bool:
    first = token.lstrip("'\u2019\u00bf\u00a1-")[:1]
    return first.isupper() or (first.isdecimal() and len(token) > 1) or first.istitle()


def _ends_initial(run: list[str]) -> bool:
    return bool(_INITIAL.match(run[-1]))


def _split_at_and(name: str) -> list[str]:
    """Two names joined by `and` where each has several words; else one: `Simon and Garfunkel`."""
    left, joined, right = name.partition(" and ")
    if joined and len(left.split()) > 1 and len(right.split()) > 1:
        return [left, *_split_at_and(right)]
    return [name]
