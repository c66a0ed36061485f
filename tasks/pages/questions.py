"""The questions about a photograph: each is a sentence and the element to which it refers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .photographs import Box, Element, Photograph

KINDS = ("link", "button", "field", "text", "purpose")
UNSEEN_KINDS = ("beside",)
"""Kinds of question that only held-out tasks have. `beside` describes an element by its row."""
_FORMS = ("Point at {}.", "Where is {}?", "Click {}.", "Find {}.")
_ROLES = {
    "link": ("link", "the link {}"),
    "button": ("button", "the button {}"),
    "textbox": ("field", "the field {}"),
    "combobox": ("field", "the list {}"),
    "checkbox": ("field", "the checkbox {}"),
    "cell": ("text", "the words {}"),
    "text": ("text", "the words {}"),
    "columnheader": ("text", "the heading of the column {}"),
}
PURPOSES = {
    ("shop", "Cart"): "You want to see what you are about to buy. Where do you click?",
    ("shop", "Orders"): "You want to know whether something you bought has been delivered. Where do you click?",
    ("shop", "Wish list"): "You want to see the things you would like to have one day. Where do you click?",
    ("shop", "Products"): "You want to see everything that is sold here. Where do you click?",
    ("shop", "Next page"): "You have read these and want to see more of them. Where do you click?",
    ("shop", "Add to cart"): "You want to buy this. Where do you click?",
    ("shop", "Add to wish list"): "You like this but will not buy it today. Where do you click?",
    ("shop", "Apply coupon"): "You have typed in a code that makes it cheaper. Where do you click now?",
    ("shop", "Go to checkout"): "You have everything you need and want to pay. Where do you click?",
    ("shop", "Place order"): "The address is right. Where do you click to buy?",
    ("shop", "Cancel order"): "You no longer want what you have ordered. Where do you click?",
    ("shop", "Deliver to"): "It is to be brought to another place. Where do you choose it?",
    ("shop", "Quantity"): "You want three of them. Where do you say so?",
    ("mail", "Write"): "You want to tell a friend something new. Where do you click?",
    ("mail", "Sent"): "You want to read again what you wrote to somebody. Where do you click?",
    ("mail", "Trash"): "You want to see what you have thrown away. Where do you click?",
    ("mail", "Reply"): "You want to answer whoever wrote this. Where do you click?",
    ("mail", "Forward"): "Somebody else should read this, too. Where do you click?",
    ("mail", "Delete"): "You never want to see this again. Where do you click?",
    ("mail", "Move to"): "This belongs into another folder. Where do you choose which?",
    ("mail", "Older"): "What you look for came earlier than these. Where do you click?",
    ("mail", "To"): "Where do you say who is to get this?",
    ("mail", "Send"): "The letter is finished. Where do you click?",
    ("calendar", "New event"): "You have agreed to meet somebody. Where do you click to note it?",
    ("calendar", "Remove event"): "It does not take place after all. Where do you click?",
    ("calendar", "Save"): "What you have filled in is right. Where do you click?",
    ("calendar", "Place"): "Where do you say in which house you meet?",
    ("forum", "New thread"): "You have a question that nobody has asked yet. Where do you click?",
    ("forum", "Vote up"): "You agree with whoever wrote this. Where do you click?",
    ("forum", "Your answer"): "You know what to say to this. Where do you write it?",
    ("forum", "Sort by"): "You want to see first what most people like. Where do you choose that?",
    ("forum", "Publish"): "Your question is written. Where do you click?",
    ("forum", "Threads"): "You want to see everything that is talked about. Where do you click?",
}
"""Sentences that give an element's purpose but not its name, by site and element name."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `kind` is one of KINDS or UNSEEN_KINDS; `forms` are phrasings that all mean `element`."""

    kind: str
    forms: tuple[str, ...]
    element: Element


def questions_of(page: Photograph) -> list[Question]:
    """Return every question that has exactly one right answer on this page."""
    questions = [*_by_name(page), *_by_purpose(page), *_beside(page)]
    counts = Counter(question.forms[0] for question in questions)
    return [question for question in questions if counts[question.forms[0]] == 1]


def _by_name(page: Photograph) -> Iterator[Question]:
    counts = Counter(element.name for element in page.elements)
    for element in page.elements:
        kind, phrase = _ROLES.get(element.role, ("", ""))
        if kind and (kind != "text" or counts[element.name] == 1):  # words may also be on a link
            yield Question(kind, _forms(phrase.format(f'"{element.name}"')), element)


def _by_purpose(page: Photograph) -> Iterator[Question]:
    for element in page.elements:
        if element.role in ("link", "button", "textbox", "combobox") and (page.site, element.name) in PURPOSES:
            yield Question("purpose", (PURPOSES[page.site, element.name],), element)


def _beside(page: Photograph) -> Iterator[Question]:
    """Yield questions about the elements of a list.

    They name the row by its first element, and the column if it has a heading.
    """
    counts = Counter(element.name for element in page.elements)
    headings = [element for element in page.elements if element.role == "columnheader"]
    cells = [element for element in page.elements if element.role in ("cell", "link", "button", "textbox")]
    for element in cells:
        row_cells = [c for c in cells if c is not element and _same_row(c.box, element.box)]
        first = min(row_cells, key=lambda cell: cell.box[0], default=None)
        if first is None or first.box[0] > element.box[0] or first.role not in ("cell", "link"):
            continue
        if counts[first.name] > 1:
            continue
        above = [h for h in headings if h.box[1] < element.box[1] and _is_above(h.box, element.box)]
        if element.role == "cell" and above:
            description = f'what the column "{above[-1].name}" says of "{first.name}"'
        elif element.role == "cell" and not headings:
            description = f'what stands beside "{first.name}"'
        elif element.role in ("button", "textbox") and above:
            description = f'the {"button" if element.role == "button" else "field"} in the row of "{first.name}"'
        else:
            continue
        yield Question("beside", _forms(description), element)


def _forms(description: str) -> tuple[str, ...]:
    return tuple(form.format(description) for form in _FORMS)


def _same_row(a: Box, b: Box) -> bool:
    """Return whether the vertical centre of each box lies between the top and bottom of the other."""
    middle_a, middle_b = (a[1] + a[3]) / 2, (b[1] + b[3]) / 2
    return a[1] < middle_b < a[3] and b[1] < middle_a < b[3]


def _is_above(heading: Box, box: Box) -> bool:
    return heading[0] <= (box[0] + box[2]) / 2 < heading[2]
