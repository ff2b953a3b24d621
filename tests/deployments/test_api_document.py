from pathlib import Path

from deployments.api.document import api_document

ROOT = Path(__file__).parents[2]


def test_the_api_page_is_that_of_the_api_as_it_is() -> None:
    page = (ROOT / "docs/api.md").read_text("utf-8")
    assert page == api_document(), "docs/api.md is not that of this API: run `make docs`"
