"""Renders the corpus as HTML: texts are escaped, links lead to the same server, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from .index.page_store import Page
from .index.words import words
from .pages import snippet

_STYLE = (
    "body{max-width:44rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#1d2733;"
    "background:#fff}a{color:#0b57a4}input{font:inherit;padding:.3rem .5rem;width:22rem}"
    "@media(prefers-color-scheme:dark){body{color:#d7dee6;background:#14191f}a{color:#7db7f0}}"
)
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]")


def start_html(pages: int) -> str:
    """Return the start page."""
    return _document("Search", f"<h1>Search</h1>{_form('')}<p>{pages:,} pages.</p>")


def results_html(query: str, pages: Sequence[Page]) -> str:
    """Return a page of search results."""
    query_words = words(query)
    items = "".join(f"<li>{_anchor(page.title)}<br>{escape(snippet(page.text, query_words))}</li>" for page in pages)
    results = f"<ol>{items}</ol>" if items else "<p>Nothing was found.</p>"
    return _document(f"{query} - Search", f"{_form(query)}{results}")


def page_html(page: Page) -> str:
    """Render one page; bracketed texts that are links of the page become links."""
    links = set(page.links)

    def linked(text: str) -> str:
        parts, at = [], 0
        for match in _LINK.finditer(text):
            if match[1] in links:
                parts += [escape(text[at : match.start()]), _anchor(match[1])]
                at = match.end()
        return "".join([*parts, escape(text[at:])])

    paragraphs = "".join(f"<p>{linked(part)}</p>" for part in page.text.split("\n") if part.strip())
    hidden = [link for link in page.links if f"[{link}]" not in page.text]
    more = f"<ul>{''.join(f'<li>{_anchor(link)}</li>' for link in hidden)}</ul>" if hidden else ""
    return _document(page.title, f"{_form('')}<h1>{escape(page.title)}</h1>{paragraphs}{more}")


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "form-action 'self'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _form(query: str) -> str:
    return (
        f'<form action="/search"><input name="q" aria-label="Search for" value="{escape(query)}"> '
        "<button>Search</button></form>"
    )


def _anchor(title: str) -> str:
    return f'<a href="/pages/{quote(title, safe="")}">{escape(title)}</a>'
