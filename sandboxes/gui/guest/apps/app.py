"""The base class of the applications (routes by method name, state as plain data) and helpers for escaped HTML."""

from __future__ import annotations

import copy
import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..page_request import PageRequest

MAX_TEXT = 4_000
Fields = dict[str, str]
STYLE = """
body { font: 14px/1.45 sans-serif; margin: 0; color: #222; background: #f4f5f7 }
nav { background: #23395d; padding: 9px 16px } nav a { color: #fff; margin-right: 16px; text-decoration: none }
nav b { color: #fff; margin-right: 22px } main { max-width: 720px; margin: 12px auto; background: #fff;
  padding: 12px 20px }
h1 { font-size: 20px; margin: 6px 0 12px } table { border-collapse: collapse; width: 100% }
td, th { padding: 4px 8px; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
form { margin: 6px 0 } td form { display: inline; margin: 0 } label { display: inline-block; margin: 3px 10px 3px 0 }
input, select, textarea, button { font: inherit; padding: 2px 5px } button { cursor: pointer }
textarea { display: block; width: 96%; height: 90px } .note { background: #fff6d6; padding: 5px 9px }
"""


class App:
    """Base of the applications: `get_cart` answers GET /cart, `post_cart` POST /cart.

    A handler returns the HTML of a page, or the path to redirect to. It changes only `state`; `effects` is the
    difference from the initial state, which the reward compares.
    """

    title: str = ""
    links: tuple[tuple[str, str], ...] = ()

    def __init__(self, data: dict[str, Any]) -> None:
        self.start = data
        self.state = copy.deepcopy(data)

    def respond(self, request: PageRequest) -> str:
        """Return the HTML of a page, or the path to redirect to."""
        name = request.path.strip("/").replace("/", "_") or "home"
        handler = getattr(self, f"{request.method.lower()}_{name}", None) if name.isidentifier() else None
        if handler is None:
            return self.page("Not found", "<p>There is no such page.</p>")
        answer: str = handler(request.form if request.method == "POST" else request.query)
        return answer

    def effects(self) -> dict[str, Any]:
        """Return the changes since the beginning, as plain data."""
        raise NotImplementedError

    def steps(self) -> tuple[int, int, int] | None:
        """For an application with steps: the number of steps taken, of those taken correctly, and of all steps."""
        return None

    def page(self, heading: str, body: str, note: str = "") -> str:
        """Return a complete page around a body of HTML. An application without links has no navigation bar."""
        links = "".join(f'<a href="{path}">{words}</a>' for path, words in self.links)
        bar = f"<nav><b>{self.title}</b>{links}</nav>" if links else ""
        name = f"{text(heading)} - {self.title}" if links else text(heading)
        note_html = f'<p class="note">{text(note)}</p>' if note else ""
        return (
            f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{name}</title>"
            f"<style>{STYLE}</style></head><body>{bar}<main><h1>{text(heading)}</h1>{note_html}"
            f"{body}</main></body></html>"
        )


def text(value: object) -> str:
    """Return the value as escaped text for HTML."""
    return html.escape(str(value)[:MAX_TEXT], quote=True)


def link(path: str, words: str) -> str:
    return f'<a href="{text(path)}">{text(words)}</a>'


def button(path: str, words: str, **hidden: object) -> str:
    """Return a form with a single button."""
    fields = "".join(f'<input type=hidden name={name} value="{text(value)}">' for name, value in hidden.items())
    return f'<form method=post action="{text(path)}">{fields}<button>{text(words)}</button></form>'


def entry(name: str, label: str, value: object = "", kind: str = "text", size: int = 24) -> str:
    return f'<label>{text(label)} <input type={kind} name={name} value="{text(value)}" size={size}></label>'


def area(name: str, label: str, value: str = "") -> str:
    return f"<label>{text(label)} <textarea name={name}>{text(value)}</textarea></label>"


def choice(name: str, label: str, options: Iterable[str | tuple[str, str]], chosen: str = "") -> str:
    """Return a select element; each option is a text or a pair of value and label."""
    pairs = [option if isinstance(option, (list, tuple)) else (option, option) for option in options]
    inside = "".join(
        f'<option value="{text(value)}"{" selected" if value == chosen else ""}>{text(words)}</option>'
        for value, words in pairs
    )
    return f"<label>{text(label)} <select name={name}>{inside}</select></label>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; the cells are HTML already."""
    top = "".join(f"<th>{text(word)}</th>" for word in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def parse_whole_number(value: object, least: int, most: int) -> int | None:
    """Return the value as a whole number from `least` to `most`; None for anything else."""
    value = str(value).strip()
    if not value.isascii() or not value.isdigit() or len(value) > 6:
        return None
    return int(value) if least <= int(value) <= most else None
