"""The documents name what is there: every file in the tree, every link, every error."""

import re
from collections import Counter
from pathlib import Path

import pytest

from deployments.api.errors import status_of
from tests.architecture.test_shape import ROOT, SOURCES
from tests.core.test_errors import ERRORS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
_NAMELESS = {"__init__.py", "__main__.py"}


def test_the_tree_of_the_readme_names_every_file_of_code() -> None:
    _, _, rest = (ROOT / "README.md").read_text("utf-8").partition("## The tree\n\n```\n")
    tree, _, _ = rest.partition("```")
    code = [*SOURCES, *(ROOT / "examples").glob("*.py")]
    there = Counter(path.name for path in code if path.name not in _NAMELESS)
    named = Counter(re.findall(r"\b[\w-]+\.py\b", tree))
    assert (there - named, named - there) == (Counter(), Counter()), "not named, and not there"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_architecture_page_has_every_error_with_its_status() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\d+) \|", page, re.MULTILINE))
    assert rows == {(kind.__name__, kind.code, str(int(status_of(kind)))) for kind in ERRORS}
