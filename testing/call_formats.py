"""check_call_format: rendered calls are parsed back; no text makes the parser raise, and no text is lost."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from agentgym import Call, Message, load, thoughts

from .findings import Findings, short

if TYPE_CHECKING:
    from agentgym.policy import CallFormat

GARBAGE = (
    "",
    " ",
    "\n",
    "[" * 3_000,
    "{" * 3_000,
    "]" * 3_000,
    "NaN",
    "null",
    "[]",
    '{"name": null}',
    "\x00",
    "\ud800",
    "I think the answer is 4.",
    "<tool_call>",
    "</tool_call>",
    "<tool_call></tool_call>",
    "```",
    "<" * 3_000,
    "<|im_start|>assistant\n",
    "\u202e" * 9,
)
TEXTS = (
    "hello",
    "<think>",
    "a</think>b",
    "[THINK]",
    'quotes " and \\ and </tool_call> <sql>',
    "line\nline ☂",
    "1",
    "true",
    "[1, 2]",
    "a < b > c & d",
)


def check_call_format(call_format: str | CallFormat, *, tool: str = "look", argument: str = "text") -> None:
    """Check a call format with round trips, several calls, plain speech, garbage and every prefix of a valid message.

    Args:
        tool, argument: a call that the format can write, for formats that know their tools.
    Raises: ConformanceError with every finding.
    """
    form: CallFormat
    if isinstance(call_format, str):
        loaded = load("call_formats", call_format)
        form = loaded() if isinstance(loaded, type) else loaded
    else:
        form = call_format
    findings = Findings(f"call format {getattr(form, 'name', call_format)!r}")
    if isinstance(call_format, str) and form.name != call_format:
        findings.add(f"It is registered as {call_format!r} and calls itself {form.name!r}.")
    if not isinstance(form.stop, tuple) or not all(isinstance(text, str) and text for text in form.stop):
        findings.add(f"stop is {form.stop!r}: a tuple of texts, empty if there are none.")
    with findings.no_exception("Rendering or parsing"):
        _check_round_trips(form, tool, argument, findings)
        _check_damaged(form, tool, argument, findings)
        _check_thoughts(form, tool, argument, findings)
    for text in GARBAGE:
        _parse(form, text, findings)
    speech, calls = _parse(form, "I think the answer is 4.", findings)
    if calls or speech != "I think the answer is 4.":
        findings.add(f"Plain speech was read as {speech!r} with calls {calls}.")
    findings.conclude()


def _check_round_trips(form: CallFormat, tool: str, argument: str, findings: Findings) -> None:
    for text in TEXTS:
        try:
            rendered = form.render((Call(tool, {argument: text}),))
        except ValueError:
            continue  # a format may refuse calls that it cannot write
        _, parsed = form.parse(rendered)
        if [(c.name, c.arguments, c.error) for c in parsed] != [(tool, {argument: text}, None)]:
            findings.add(f"{tool}({argument}={text!r}) was written {short(rendered)!r} and read as {short(parsed)}.")
    both = (Call(tool, {argument: "hello"}), Call(tool, {argument: "again"}, "call_1"))
    _, parsed = form.parse(form.render(both))
    if [c.arguments.get(argument) for c in parsed] != ["hello", "again"]:
        findings.add(f"Two calls, hello and again, were read as {short(parsed)}.")
    if len({c.id for c in parsed}) != len(parsed):
        findings.add(f"Two calls of one message have the same id: {[c.id for c in parsed]}.")


def _check_thoughts(form: CallFormat, tool: str, argument: str, findings: Findings) -> None:
    """Check that calls in a thought, closed or not, are ignored at any position, and that a call after it is read."""
    rendered = form.render((Call(tool, {argument: "hello"}),))
    for opening, closing in thoughts.THOUGHTS.items():
        thought = f"{opening}perhaps\n{rendered}\n{closing}"
        for text in (thought, f"Sure. {thought}\ndone", f"{thought}{thought}done", thought.removesuffix(closing)):
            content, calls = _parse(form, text, findings)
            if calls:
                findings.add(f"The call in the thought of {short(text, 200)!r} was read as {short(calls)}.")
            elif "perhaps" not in Message("assistant", content).thought:
                findings.add(f"The thought of {short(text, 200)!r} is not in the content {short(content)!r}.")
        _, calls = _parse(form, f"{thought}\n{rendered}", findings)
        if [call.arguments.get(argument) for call in calls] != ["hello"]:
            findings.add(f"The call after the thought {short(thought)!r} was read as {short(calls)}.")


def _check_damaged(form: CallFormat, tool: str, argument: str, findings: Findings) -> None:
    """Parse every prefix of a valid message, and valid messages with a few wrong letters."""
    rendered = form.render((Call(tool, {argument: "hello"}),))
    for cut in range(len(rendered)):
        _parse(form, rendered[:cut], findings)
    rng = random.Random(0)
    for _ in range(200):
        letters = list(rendered * 2)
        for _ in range(3):
            letters[rng.randrange(len(letters))] = rng.choice('<>{}[]"\\,:a1 \n')
        _parse(form, "".join(letters), findings)


def _parse(form: CallFormat, text: str, findings: Findings) -> tuple[str, tuple[Call, ...]]:
    """Parse a text that an agent might write; report an exception as a finding."""
    try:
        speech, calls = form.parse(text)
    except Exception as error:  # noqa: BLE001  a parser never raises
        findings.add(f"parse raised {type(error).__name__} on {short(text, 60)!r}: {short(error)}")
        return "", ()
    if not isinstance(speech, str) or not isinstance(calls, tuple) or not all(isinstance(c, Call) for c in calls):
        findings.add(
            f"parse returned {short((speech, calls))} for {short(text, 60)!r}: expected text and a tuple of Call."
        )
        return "", ()
    for call in calls:
        if call.error is not None and not call.error.strip():
            findings.add(f"A broken call in {short(text, 60)!r} has no error text that teaches.")
        if call.error is None:
            try:
                json.dumps(call.arguments, allow_nan=False)
            except ValueError:
                findings.add(
                    f"A call in {short(text, 60)!r} was read with arguments that are no JSON: {call.arguments}"
                )
    return speech, calls
