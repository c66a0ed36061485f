"""The reference pages are what the code says, and a reader finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.reference.entries import entries_of
from research.reference.pages import PAGES, make_pages
from research.reference.recipe_page import undescribed

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_up_to_date(name):
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == make_pages()[name], "run `make reference`"


def test_every_reference_page_is_in_the_list_of_the_documents():
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"(reference/{name})" not in index] == []


def test_every_key_of_a_recipe_is_explained():
    assert undescribed() == []


def test_entries_are_told_from_sentences_with_a_colon():
    text = "How it is. Note: `x` matters.\n\n`x`: the first. `y`, `z`: the\nothers. For example: none."
    introduction, texts = entries_of(text, ["x", "y", "z"])
    assert introduction == "How it is. Note: `x` matters.\n\n"
    assert texts == {"x": "The first.", "y": "The others. For example: none.", "z": "The others. For example: none."}
