"""Scripts by which a player names an element, composed from words."""

from __future__ import annotations

import json
import re

SUBMIT = (
    "document.querySelector('#subbtn') || [...document.querySelectorAll('button, input[type=submit], .final, "
    ".ui-submit')].find(b => /submit|login|search|agree|ok|go!/i.test(b.textContent + b.value) && b.offsetParent)"
)
"""The button that submits a form."""
PAYING = """(() => {
  const source = e => {
    const all = [e.onclick, e.__onclick && (e.__onclick._ || e.__onclick)];
    for (const one of e.__on || []) if (one.type === 'click') all.push(one.value, one.listener);
    if (window.$ && $._data) for (const one of ($._data(e, 'events') || {}).click || []) all.push(one.handler);
    return all.filter(Boolean).map(String).join(' ');
  };
  return [...document.querySelectorAll('#area *')].find(e => {
    const text = source(e);
    return %s.test(text) && !/\\bif\\b|\\?/.test(text) && e.getBoundingClientRect().width;
  });
})()"""
"""The element whose own handler gives the reward of a pattern: the page's authors marked the right element this way."""


def quoted(text: str) -> list[str]:
    return re.findall(r'"(.*?)"', text)


def first_of(selector: str) -> str:
    """Return a script for the first element of a selector, visible or not."""
    return f"document.querySelector({json.dumps(selector)})"


def every(selector: str) -> str:
    """Return a script for all elements of a selector that take up space."""
    return f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.getBoundingClientRect().width)"


def nth(selector: str, index: int) -> str:
    """Return a script for one of `every`, by its index from 0."""
    return f"{every(selector)}[{index}]"


def labelled(selector: str, words: str) -> str:
    """Return a script for the first of `every` whose whole text is `words`."""
    return f"{every(selector)}.find(e => e.textContent.trim() === {json.dumps(words)})"


def leaf(words: str) -> str:
    """Return a script for the smallest visible element with exactly these words, outside of the page's request."""
    return (
        f"[...document.querySelectorAll('button, a, span, div, td, li, label, h3, p, text, input')].filter(e => "
        f"(e.textContent.trim() || e.value || '').trim() === {json.dumps(words)} && e.getBoundingClientRect().width && "
        f"!e.closest('#query')).sort((a, b) => a.querySelectorAll('*').length - b.querySelectorAll('*').length)[0]"
    )


def beside(label: str) -> str:
    """Return a script for the text in the table row of a label."""
    return (
        "[...document.querySelectorAll('#area tr')].find(r => "
        f"r.children[0].textContent.trim() === {json.dumps(label)}).children[1].textContent"
    )
