"""The call-format contract: how an agent's text writes calls, and how malformed calls are handled.

One rule for malformed input in every format: `parse` takes linear time and never raises. Every piece of text
meant as a call becomes a Call, in the order written; if it cannot be run, its `error` says what is wrong and
shows the right form. So a broken call gets an answer, is never mistaken for a final answer, and does not block good
calls beside it. Nothing inside a thought is a call, wherever the thought is and whether or not it was
closed; CallWalk implements this.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, runtime_checkable

from agentgym.messages import Call
from agentgym.strict_json import encodable

MAX_CALLS = 64  # the most calls read from one message; further calls get a single error
MAX_CALL_CHARS = 100_000


@runtime_checkable
class CallFormat(Protocol):
    """How calls are written in text.

    Attributes:
        name: the registered name, in `agentgym.call_formats`.
        stop: texts that end the agent's message; empty if its end-of-turn token does.

    A format may have further attributes. `untyped = True` says that its syntax writes every argument as text, so
    that the tool's schema must say which are numbers (see coercion.py). `control` lists the special tokens in its
    calls, such as Mistral's "[TOOL_CALLS]"; an agent's message is encoded with these special tokens only. A class's
    `layouts` are the constructor options for the layouts that templates use, the usual layout first. `ids` says how
    calls carry ids in their text (`CallIds`); None if they carry none. `compose(text, calls)` returns a whole message,
    for formats in which text needs marks too; without it, calls follow the text as in the template.
    """

    name: str
    stop: tuple[str, ...]

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """Return the text outside calls, stripped, and the calls in order. Linear in the text; never raises.

        Thoughts stay in the text, with their marks: `Message` separates them from speech.
        """
        ...

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return instructions on these tools and how to call them, for a model whose chat template gives none."""
        ...

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return the calls as an agent would write them; `parse` reads them back."""
        ...


@dataclass(frozen=True)
class CallIds:
    """How a format's calls carry ids, to which their results refer.

    Attributes:
        make: returns the id of a call from the tool's name and the call's number in the conversation, from 0.
        pattern: matches a whole id.
        reference: how the template writes an id that it made up itself, with {id} in place of the id.
    """

    make: Callable[[str, int], str]
    pattern: re.Pattern[str]
    reference: str = "{id}"

    def of(self, call: Call, number: int) -> str:
        """Return a call's id if the format can write it, else the id of call number `number`."""
        return call.id if self.pattern.fullmatch(call.id) else self.make(call.name, number)

    def read(self, written: object, index: int) -> str:
        """Return the id that a call was written with; if it has none, the default id for call `index` of its
        message.
        """
        return written if isinstance(written, str) and self.pattern.fullmatch(written) else f"call_{index}"


NINE_LETTERS = CallIds(lambda _, number: f"call{number:05d}", re.compile(r"[A-Za-z0-9]{9}"))
"""Ids as Mistral writes them."""


def ids_of(call_format: object) -> CallIds | None:
    """Return how a format's calls carry ids; None if they carry none."""
    return getattr(call_format, "ids", None)


class Malformed(Exception):
    """A call is malformed. The error message is a sentence for the model, without an example of the right form."""


def malformed_call(index: int, problem: str, example: str, name: str = "") -> Call:
    """Return a Call that represents a malformed call and carries its error.

    Args:
        index: position among the calls of the message.
        problem: one sentence that says what is wrong, with the value.
        example: the right form, to copy.
        name: the name of the tool, if it could be read.
    """
    return Call(name=name, id=f"call_{index}", error=f"{problem} Nothing was run for it. Write it like this: {example}")


def add_too_many_calls_error(calls: list[Call], more: int, example: str) -> None:
    """Append the single error that answers `more` calls beyond MAX_CALLS."""
    problem = f"One message may hold {MAX_CALLS} calls, and this one held {more} more, which were ignored."
    calls.append(malformed_call(len(calls), problem, example))


def excerpt(text: str, limit: int = 60) -> str:
    """Return the beginning of a text in quotes, for an error."""
    return repr(text if len(text) <= limit else text[:limit] + "...")


def strict_object(text: str) -> dict[str, Any]:
    """Return a JSON object, read strictly: no NaN, no infinity, no lone surrogates, bounded depth and size.

    Raises: Malformed with a sentence for the model.
    """
    value = strict_json(text)
    if not isinstance(value, dict):
        raise Malformed(f"The call must be a JSON object, not {kind_of(value)}.")
    return value


def strict_json(text: str) -> Any:
    """Return any JSON value, read as strictly as in `strict_object`. Raises: Malformed."""
    text = text.strip()
    if len(text) > MAX_CALL_CHARS:
        raise Malformed(f"The call is {len(text)} characters long; at most {MAX_CALL_CHARS} are read.")
    value, end = strict_json_at(text, 0)
    rest = text[end:].lstrip()
    if rest:
        at = len(text) - len(rest)
        near = excerpt(text[max(0, at - 15) : at + 15], 30)
        raise Malformed(f"The call is not valid JSON: Extra data at character {at}, near {near}.")
    return value


def strict_json_at(text: str, begin: int) -> tuple[Any, int]:
    """Return the JSON value that begins at a position in the text, and its end. Raises: Malformed."""
    window = text[begin : begin + MAX_CALL_CHARS]
    try:
        value, end = _DECODER.raw_decode(window)
    except json.JSONDecodeError as error:
        near = excerpt(window[max(0, error.pos - 15) : error.pos + 15], 30)
        raise Malformed(f"The call is not valid JSON: {error.msg} at character {error.pos}, near {near}.") from error
    except RecursionError as error:
        raise Malformed("The call is not usable JSON: brackets are nested too deeply.") from error
    except ValueError as error:  # Python refuses integers with thousands of digits
        raise Malformed("The call is not usable JSON: a number in it is too long.") from error
    if "\\u" in window[:end] and not encodable(value):
        raise Malformed("The call contains half of a surrogate pair (\\ud800-\\udfff), which is not a character.")
    return value, begin + end


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value, such as "a list", for an error."""
    return _KIND.get(type(value), "something else")


def refuse_unless_read_back(call_format: CallFormat, call: Call, arguments: dict[str, Any], text: str) -> str:
    """Return `text`, a written call, if the format reads it back. Raises: ValueError if it does not."""
    _, calls = call_format.parse(text)
    if [(read.name, read.arguments, read.error) for read in calls] != [(call.name, arguments, None)]:
        raise ValueError(
            f"The call format {call_format.name!r} cannot write the call {excerpt(call.name)} with "
            f"{excerpt(str(call.arguments), 200)}, because its syntax cannot escape part of it. Change these texts, "
            "or use a JSON format such as 'hermes'."
        )
    return text


def _refuse(constant: str) -> NoReturn:
    raise Malformed(f"The call is not valid JSON: {constant} is not a JSON number.")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise Malformed(f"The call is not usable JSON: the number {excerpt(number, 20)} is too large.")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_KIND: dict[type, str] = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}
