"""Separate a model's thoughts from its speech in the text it wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping

THOUGHTS: Mapping[str, str] = {  # how models open and close a thought
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "◁think▷": "◁/think▷",
    "<|channel>thought": "<channel|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
OPENING = re.compile("|".join(map(re.escape, THOUGHTS)))
# without <|end|>, which ends every message in Harmony
_CLOSINGS = {closing: opening for opening, closing in THOUGHTS.items() if closing != "<|end|>"}
_MARK = re.compile("|".join(map(re.escape, [*THOUGHTS, *_CLOSINGS])))
_AROUND_SPEECH = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:final|commentary)[^<]{0,300}<\|message\|>|<\|(?:end|return)\|>"
    r"|<\|(?:START|END)_RESPONSE\|>"
)


def end_of_thought(text: str, opening: re.Match[str]) -> int:
    """Return the position after a thought's closing mark; the end of the text if the thought is never closed."""
    closing = THOUGHTS[opening.group()]
    close = text.find(closing, opening.end())
    return close + len(closing) if close >= 0 else len(text)


def thought_ranges(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each thought, marks included. An unclosed thought extends to the end of the text.

    A closing mark without an opening ends a thought that began before the text, since some templates open the thought
    in the prompt: everything before the mark is that thought.
    """
    ranges, at = list[tuple[int, int]](), 0
    while mark := _MARK.search(text, at):
        if mark.group() in _CLOSINGS:
            ranges, at = [(0, mark.end())], mark.end()
        else:
            at = end_of_thought(text, mark)
            ranges.append((mark.start(), at))
    return ranges


def split_thoughts(text: str) -> tuple[str, str]:
    """Return a text's thoughts (without marks, one per line) and its speech (the rest, stripped).

    A text without any mark is returned unchanged.
    """
    ranges = thought_ranges(text)
    if not ranges and not _AROUND_SPEECH.search(text):
        return "", text
    thoughts, speech, at = list[str](), list[str](), 0
    for begin, end in ranges:
        speech.append(text[at:begin])
        thoughts.append(_MARK.sub("", text[begin:end]).removesuffix("<|end|>").strip())
        at = end
    speech.append(text[at:])
    return "\n".join(filter(None, thoughts)), _AROUND_SPEECH.sub("", "".join(speech)).strip()


def opened_before(text: str) -> str:
    """Return the opening mark of the thought in which a text begins; "" if it does not begin inside a thought.

    It does if the first mark in it is a closing one.
    """
    mark = _MARK.search(text)
    return _CLOSINGS.get(mark.group(), "") if mark else ""


def begun_thought(prompt: str) -> str:
    """Return the opening mark at the end of a prompt; "" if the agent begins outside a thought."""
    return next((mark for mark in THOUGHTS if prompt.rstrip().endswith(mark)), "")


def without_last_thought(prompt: str) -> str:
    """Return a prompt without a thought at its end (opened or empty) and without white space at its end."""
    text = prompt.rstrip()
    for opening, closing in THOUGHTS.items():
        begun = text.removesuffix(closing).rstrip()
        if begun.endswith(opening):
            return begun.removesuffix(opening).rstrip()
    return text
