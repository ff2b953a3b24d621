"""Names by rule: runs of capitalised words, and the topic of a question that has no capitals."""

from collections.abc import Sequence

from crag_core.explaining import Name
from crag_core.queries.names import asian_topic, capitalised_names, quoted_names

LABEL = "NAME"


class CapitalisedNames:
    """A `NameFinder` that needs no model; for questions, and poor at sentences' first words."""

    def names(self, text: str) -> Sequence[Name]:
        """What stands in quotes, then capitalised runs, then an East Asian question's topic."""
        topic = asian_topic(text)
        found: list[Name] = []
        for name in (*quoted_names(text), *capitalised_names(text), *([topic] if topic else [])):
            start = text.find(name)
            if start >= 0:
                found.append(Name(start, start + len(name), LABEL))
        return without_overlap(found)


def without_overlap(names: Sequence[Name]) -> list[Name]:
    """Names in the order of the text; of those that overlap, the one that stands first here stays."""
    kept: list[Name] = []
    for name in names:
        if all(name.end <= other.start or other.end <= name.start for other in kept):
            kept.append(name)
    return sorted(kept, key=lambda name: name.start)
