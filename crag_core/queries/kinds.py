"""What a question asks of its entity, which says what kind of page the entity must have."""

from dataclasses import dataclass

from crag_core.queries.wording import word_set


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """One kind of question.

    `qualifiers` are what titles of such pages have in parentheses, the most likely first. A page's
    lead holds one of `lead_words` when the page is of that kind; without any, every page will do.
    Where titles tell the kind, `X (film)` is the film X; where they do not, as with people,
    `X (politician)` is only a guess at which X is meant.
    """

    name: str
    qualifiers: tuple[str, ...] = ()
    lead_words: frozenset[str] = frozenset()
    is_told_by_title: bool = True

    def fits(self, lead: str) -> bool:
        """Whether a page with this lead may be of the kind."""
        return not self.lead_words or not self.lead_words.isdisjoint(_words(lead))


def _words(text: str) -> set[str]:
    return {word.strip(".,;:()[]\"'“”’").casefold() for word in text.replace("-", " ").split()}


_SCREEN = word_set(
    "film films movie movies documentary miniseries telefilm series television tv episode "
    "sitcom anime short drama comedy thriller western serial show featurette cartoon "
    "directed"
)
_MUSIC = word_set(
    "song songs single album ep opera operetta musical symphony concerto ballet suite score "
    "soundtrack composition piece track band music cantata oratorio quartet sonata aria hymn "
    "anthem recorded"
)
_WRITING = word_set(
    "novel novella book books play poem poetry story stories collection comic comics manga "
    "essay memoir autobiography biography magazine newspaper series trilogy epic treatise "
    "tragedy written published fiction nonfiction anthology fable saga text work journal "
    "libretto graphic"
)
_PEOPLE = (
    "politician", "footballer", "musician", "actor", "singer", "bishop", "author", "athlete",
)  # fmt: skip

ANY = QuestionKind("any")
DIRECTOR = QuestionKind("director", ("film", "TV series", "play"), _SCREEN | {"play", "opera"})
SCREENWRITER = QuestionKind("screenwriter", ("film", "TV series", "novel", "book"), _SCREEN)
COMPOSER = QuestionKind(
    "composer", ("film", "opera", "song", "album", "musical", "composition"), _MUSIC | _SCREEN
)
PRODUCER = QuestionKind("producer", ("film", "album", "song", "TV series"), _MUSIC | _SCREEN)
AUTHOR = QuestionKind(
    "author", ("novel", "book", "play", "short story", "poem", "film"), _WRITING | _SCREEN | _MUSIC
)
GENRE = QuestionKind(
    "genre",
    ("album", "song", "film", "EP", "TV series", "band", "novel", "soundtrack", "video game"),
    _MUSIC | _SCREEN | _WRITING
    | word_set(
    "game games singer musician musicians group duo trio rapper studio label"
),
)  # fmt: skip
COUNTRY = QuestionKind(
    "country", ("town", "village", "city", "municipality", "district"), is_told_by_title=False
)
CAPITAL = QuestionKind(
    "capital", ("city", "town", "country", "province", "district"), is_told_by_title=False
)
CITY = QuestionKind("city", ("city", "town", "municipality", *_PEOPLE), is_told_by_title=False)
PERSON = QuestionKind("person", _PEOPLE, is_told_by_title=False)
SPORT = QuestionKind(
    "sport",
    ("footballer", "soccer", "basketball", "ice hockey", "cricketer", "tennis", "athlete"),
    is_told_by_title=False,
)

FILM = QuestionKind("film", ("film", "movie"), _SCREEN)
SONG = QuestionKind("song", ("song", "single"), _MUSIC)
ALBUM = QuestionKind("album", ("album", "EP"), _MUSIC)
BAND = QuestionKind("band", ("band", "group"), _MUSIC | {"group", "duo", "trio"})
BOOK = QuestionKind("book", ("novel", "book", "play", "short story"), _WRITING)
SERIES = QuestionKind("series", ("TV series", "film series", "series"), _SCREEN)
GAME = QuestionKind("game", ("video game", "game"), frozenset({"game", "games", "series"}))

_KIND_OF_WORD: dict[str, QuestionKind] = {
    **dict.fromkeys(("director", "directors", "directed", "direct", "filmmaker"), DIRECTOR),
    **dict.fromkeys(("screenwriter", "screenwriters", "screenplay", "scriptwriter"), SCREENWRITER),
    **dict.fromkeys(
        ("composer", "composers", "composed", "compose", "music", "lyrics", "lyricist"), COMPOSER
    ),
    **dict.fromkeys(
        ("producer", "producers", "produced", "produce", "cast", "starred", "stars", "star"), PRODUCER
    ),
    **dict.fromkeys(
        ("author", "authors", "writer", "writers", "wrote", "write", "written", "writes", "penned"),
        AUTHOR,
    ),
    **dict.fromkeys(("illustrator", "publisher", "published", "plot", "protagonist"), BOOK),
    **dict.fromkeys(("genre", "genres"), GENRE),
    **dict.fromkeys(("country", "state", "region", "province", "county"), COUNTRY),
    **dict.fromkeys(("capital", "seat"), CAPITAL),
    **dict.fromkeys(("city", "town", "mayor", "population"), CITY),
    **dict.fromkeys(("sport", "position", "team", "club"), SPORT),
    **dict.fromkeys(
        (
            "occupation", "profession", "job", "religion", "nationality", "born", "died", "birth",
            "death", "birthplace", "birthday", "birthdate", "father", "mother", "spouse", "wife",
            "husband", "child", "children", "son", "daughter", "brother", "sister", "sibling",
            "parents", "parent", "age", "height", "old", "tall", "ethnicity", "faith", "denomination",
            "education", "instrument", "grandfather", "grandmother", "married", "buried", "person",
            "man", "woman", "actor", "actress", "politician", "footballer", "die",
        ),
        PERSON,
    ),
    **dict.fromkeys(("film", "films", "movie", "movies", "documentary"), FILM),
    **dict.fromkeys(("song", "songs", "single", "sang", "sings", "sing", "singer", "performer"), SONG),
    **dict.fromkeys(("album", "albums", "ep"), ALBUM),
    **dict.fromkeys(("band", "group"), BAND),
    **dict.fromkeys(("book", "books", "novel", "novella", "play", "poem"), BOOK),
    **dict.fromkeys(("series", "show", "sitcom", "episode", "season"), SERIES),
    **dict.fromkeys(("game", "videogame"), GAME),
}  # fmt: skip


def kind_of(words: str) -> QuestionKind:
    """The kind of a property such as `date of birth`: that of its first word that has one."""
    for word in words.casefold().replace("-", " ").split():
        if kind := _KIND_OF_WORD.get(word):
            return kind
    return ANY
