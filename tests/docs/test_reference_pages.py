"""The reference pages are what the code says, and a reader finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.reference.pages import PAGES, make_pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_up_to_date(name):
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == make_pages()[name], "run `make reference`"


def test_every_reference_page_is_in_the_list_of_the_documents():
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"(reference/{name})" not in index] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_row_of_a_reference_page_says_what_it_means(name):
    rows = [line for line in make_pages()[name].splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []
