"""The tool contract: a typed function that the agent may call.

`@tool` reads the signature and the Google docstring, builds a JSON Schema in the OpenAI function-call
shape and a validator. Arguments are validated before the body runs. A tool raises `ToolError` to tell
the agent something; any other exception is our fault or the machine's.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from agentgym.errors import ToolDefinitionError
from agentgym.messages import Content, ImagePart, Part, TextPart

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__agentgym_tool__"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What `@tool(...)` was given. Times in seconds, output in characters, cost in the user's own unit."""

    final: bool = False
    inline: bool = False
    timeout_s: float = 30.0
    max_output_chars: int = 16_384
    cost: float = 0.0
    name: str | None = None


class WrongArguments(Exception):
    """The arguments of a call do not fit the tool; the message is written for the model."""


class Tool:
    """A tool: its name, what it says of itself, its schema, and how to validate and run it.

    Attributes:
        name: what the agent writes.
        description: the docstring's text before `Args:`.
        parameters: JSON Schema of the arguments, an object with `additionalProperties: false`.
        options: see ToolOptions.
        is_async: the function is a coroutine function.
    """

    __slots__ = ("_validate", "description", "function", "is_async", "name", "options", "parameters")

    def __init__(self, function: Callable[..., Any], options: ToolOptions = ToolOptions()) -> None:
        self.function = function
        self.options = options
        self.name = options.name or function.__name__
        self.is_async = inspect.iscoroutinefunction(function)
        self.description, arguments = _read_docstring(function)
        self.parameters, self._validate = _build_schema(function, arguments)

    def __repr__(self) -> str:
        return f"Tool({self.signature()})"

    def schema(self) -> dict[str, Any]:
        """The tool in the OpenAI function-call shape."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    def signature(self) -> str:
        """One line such as `query(sql: string)`, for error messages and short prompts."""
        required = set(self.parameters.get("required", ()))
        parts = []
        for name, schema in self.parameters["properties"].items():
            kind = schema.get("type") or "any"
            parts.append(f"{name}: {kind}" if name in required else f"{name}: {kind} = {schema.get('default')!r}")
        return f"{self.name}({', '.join(parts)})"

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments converted to their types.

        Raises: WrongArguments naming each field, what was given and what is expected.
        """
        from pydantic import ValidationError

        try:
            valid = cast("dict[str, Any]", self._validate(arguments))
            broken = [name for name, value in valid.items() if _holds_half_character(value)]
        except ValidationError as error:
            raise WrongArguments(self._explain(error)) from error
        except RecursionError as error:
            raise WrongArguments(f"The arguments of {self.name!r} are nested too deeply.") from error
        if broken:
            raise WrongArguments(
                f"Wrong arguments for {self.name!r}: argument {broken[0]!r} holds half a character, an escape from "
                "\\ud800 to \\udfff without its other half. Write the character itself."
            )
        return valid

    def _explain(self, error: Any) -> str:
        lines = []
        for item in error.errors(include_url=False)[:5]:
            field = _short(".".join(map(str, item["loc"])) or "arguments")  # the agent may have made it up
            if item["type"] == "missing":
                lines.append(f"argument {field} is missing")
            elif item["type"] == "extra_forbidden":
                lines.append(f"there is no argument {field}")
            else:
                lines.append(f"argument {field}: {item['msg']} (you gave {_short(item.get('input'))})")
        return f"Wrong arguments for {self.name!r}: " + "; ".join(lines) + f". Expected {self.signature()}."


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *,
    final: bool = ...,
    inline: bool = ...,
    timeout_s: float = ...,
    max_output_chars: int = ...,
    cost: float = ...,
    name: str | None = ...,
) -> Callable[[F], F]: ...
def tool(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Mark a typed method or function as a tool. The schema is built when its environment class is.

    Args:
        function: the function, when used as `@tool` without parentheses.
        options: `final` ends the episode; `inline` runs a sync tool in the event loop (cheap and in
            memory only) instead of a thread; `timeout_s`; `max_output_chars`; `cost`; `name`.
    Raises: ToolDefinitionError when the options make no sense.
    """
    try:
        chosen = ToolOptions(**options)
    except TypeError as error:
        raise ToolDefinitionError(f"@tool was given an unknown option: {error}.") from error
    if chosen.timeout_s <= 0 or chosen.max_output_chars <= 0:
        raise ToolDefinitionError(f"@tool needs timeout_s and max_output_chars above 0, not {chosen}.")

    def mark(wrapped: F) -> F:
        setattr(wrapped, _MARK, chosen)
        return wrapped

    return mark(function) if function is not None else mark


def tools_of(owner: type) -> dict[str, Tool]:
    """The tools that a class defines or inherits, by name, in order of definition.

    Raises: ToolDefinitionError naming the class, the function and what is missing.
    """
    found: dict[str, Tool] = {}
    for cls in reversed(owner.__mro__):
        for attribute in vars(cls):
            function: Callable[..., Any] = vars(cls)[attribute]
            options: ToolOptions | None = getattr(function, _MARK, None)
            if options is None:
                continue
            inherited: Any = getattr(owner, attribute, None)
            if isinstance(function, (staticmethod, classmethod)):
                raise ToolDefinitionError(
                    f"{owner.__qualname__}.{attribute} is a {type(function).__name__}: a tool is a plain method, since "
                    "it acts on the world of one episode."
                )
            if inherited is function:
                made = Tool(function, options)
                if made.name in found:
                    raise ToolDefinitionError(
                        f"{owner.__qualname__} has two tools named {made.name!r}. Give one of them another `name`."
                    )
                found[made.name] = made
    return found


def render_output(value: Any, limit: int) -> tuple[Content, bool]:
    """Turn what a tool returned into content, at most `limit` characters of text.

    Text passes; content parts pass; other data is written as compact JSON.
    Returns: the content and whether it was cut.
    Raises: TypeError when the value is neither text, parts nor JSON-able data.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, (TextPart, ImagePart)):
        return _render_parts((value,), limit)
    elif isinstance(value, (list, tuple)) and value and all(isinstance(x, (TextPart, ImagePart)) for x in value):
        return _render_parts(value, limit)
    elif value is None:
        text = ""
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    length = len(text)
    shown = text if length <= limit else text[:limit]
    if _holds_half_character(shown):  # no tokenizer, ledger or socket takes it
        shown = shown.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if length <= limit:
        return shown, False
    return f"{shown}\n[output cut: {limit} of {length} characters are shown]", True


def _render_parts(parts: Sequence[Part], limit: int) -> tuple[Content, bool]:
    """Parts as they are, their text together at most `limit` characters; what is beyond is cut, images are kept."""
    shown: list[Part] = []
    cut = False
    for part in parts:
        if isinstance(part, TextPart):
            text, over = render_output(part.text, limit)
            shown.append(TextPart(str(text)))
            limit, cut = max(0, limit - len(part.text)), cut or over
        else:
            shown.append(part)
    return tuple(shown), cut


def _holds_half_character(value: Any) -> bool:
    """A lone surrogate, which JSON escapes can say and UTF-8 cannot, somewhere in plain data."""
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_holds_half_character(key) or _holds_half_character(item) for key, item in value.items())
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(_holds_half_character, value))


def _short(value: Any, limit: int = 60) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a hostile __repr__ or endless nesting must not break an error message
        text = type(value).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Split a Google docstring into its description and the text of each argument."""
    text = inspect.getdoc(function)
    if not text:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has no docstring. The model reads it to know what the tool "
            "does: add one line, and an `Args:` section where the names do not say enough."
        )
    head, _, rest = text.partition("\nArgs:\n")
    head = re.split(r"\n(?:Returns|Raises|Yields|Example|Examples|Source):", head)[0]
    section = re.split(r"\n\S", rest)[0]
    arguments: dict[str, str] = {}
    current = ""
    for line in section.splitlines():
        if match := re.match(r"\s{2,}(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line):
            current = match[1]
            arguments[current] = match[2].strip()
        elif current:
            arguments[current] += " " + line.strip()
    return " ".join(head.split()), arguments


def _build_schema(
    function: Callable[..., Any], descriptions: dict[str, str]
) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """JSON Schema of the parameters, and a validator from dict to dict of keyword arguments."""
    from typing import NotRequired  # pydantic refuses the one of typing before 3.12

    from pydantic import ConfigDict, Field, PydanticSchemaGenerationError, TypeAdapter
    from typing_extensions import TypedDict

    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has a type hint that cannot be resolved: {error}."
        ) from error
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"The tool {function.__qualname__!r} takes {parameter}: a model can only name plain parameters."
            )
        if name not in hints:
            raise ToolDefinitionError(
                f"The tool {function.__qualname__!r} has no type hint for {name!r}. The schema the model sees is "
                f"made from it: write for example `{name}: str`."
            )
        hint = hints[name]
        if name in descriptions:
            hint = typing.Annotated[hint, Field(description=descriptions[name])]
        if parameter.default is not parameter.empty:
            defaults[name] = parameter.default
            hint = NotRequired[hint]
        fields[name] = hint
    if unknown := set(descriptions) - set(fields):
        raise ToolDefinitionError(
            f"The docstring of {function.__qualname__!r} describes {sorted(unknown)}, which it does not take."
        )
    shape = cast("Any", TypedDict(f"{function.__name__}_arguments", fields))  # type: ignore[operator]
    shape.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    try:
        adapter = TypeAdapter(shape)
        schema = adapter.json_schema()
    except PydanticSchemaGenerationError as error:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has a type that has no JSON Schema: {error}"
        ) from error
    _drop_titles(schema)
    schema.setdefault("properties", {})
    for name, default in defaults.items():
        schema["properties"][name]["default"] = default
    schema["additionalProperties"] = False
    return schema, adapter.validator.validate_python


def _drop_titles(schema: Any) -> None:
    """pydantic titles every field with its own name: noise that a model pays tokens for."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for value in schema.values():
            _drop_titles(value)
    elif isinstance(schema, list):
        for value in schema:
            _drop_titles(value)
