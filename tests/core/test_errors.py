import pickle
from collections.abc import Iterator

import pytest

from crag_core.errors import CragError


def every_error(root: type[CragError] = CragError) -> Iterator[type[CragError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == CragError.__module__:
            yield from every_error(child)


ERRORS = list(every_error())


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_errors_survive_pickling(kind: type[CragError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("why")))
    assert type(copy) is kind
    assert (copy.message, copy.code, str(copy)) == ("why", kind.code, "why")


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in ERRORS]
    assert len(codes) == len(set(codes)) > 10
