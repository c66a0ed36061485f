"""The tool contract: a typed function, or a JSON Schema with a function, that the agent may call.

`@tool` reads the signature and the Google docstring. It builds a JSON Schema in the OpenAI function-call format and a
check of the arguments, which runs before the body. `Tool.from_schema` takes a ready schema. A tool raises `ToolError`
to tell the agent something; any other exception counts as an infrastructure failure.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar, overload

from agentgym.errors import ToolDefinitionError

from .arguments import (
    Check,
    InvalidArguments,
    WrongArguments,
    arguments_of_schema,
    arguments_of_signature,
    holds_lone_surrogate,
)
from .shown import as_shown, render_output

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__agentgym_tool__"
MAX_CHOICES = 8
_NOT_FOR_THE_MODEL = re.compile(r"\n(?:Returns|Raises|Yields|Example|Examples|Source):")


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options given to `@tool(...)`."""

    final: bool = False
    """Whether a successful call ends the episode."""
    inline: bool = False
    """Run a sync tool in the event loop instead of a thread; only for cheap in-memory work."""
    parallel: bool = True
    """False makes an environment's tools with this option run one at a time, in call order. Time spent waiting for
    others does not count towards `timeout_s`."""
    timeout_s: float = 30.0
    """The time limit of a call, in seconds. A call that takes longer is ended, and the agent is told so."""
    max_output_chars: int = 16_384
    """The maximum length of the output, in characters. Longer output is truncated, and the agent is told so."""
    cost: float = 0.0
    """The cost of a call in the user's own unit, recorded as `Turn.usage["cost"]`."""
    name: str | None = None
    """The name that the agent writes, if not the function's own name."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return options from keywords. Raises: ToolDefinitionError for unknown or invalid options."""
        try:
            chosen = cls(**options)
        except TypeError as error:
            raise ToolDefinitionError(f"@tool was given an unknown option: {error}.") from error
        if chosen.timeout_s <= 0 or chosen.max_output_chars <= 0:
            raise ToolDefinitionError(f"@tool was given {chosen}, but timeout_s and max_output_chars must be above 0.")
        return chosen


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tool:
    """A tool: its name, description, argument schema, argument check and function.

    Made by `Tool.from_function` (which `@tool` uses) or `Tool.from_schema`.

    Attributes:
        name: the name that the agent writes.
        description: the description that the model reads.
        parameters: JSON Schema of the arguments, an object.
        options: see ToolOptions.
        function: takes the environment and, as keywords, the arguments.
        is_async: the function is a coroutine function.
        check: returns the converted arguments; raises InvalidArguments.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    options: ToolOptions
    function: Callable[..., Any]
    is_async: bool
    check: Check

    @classmethod
    def from_function(cls, function: Callable[..., Any], options: ToolOptions = ToolOptions()) -> Tool:
        """Return an environment's method (with `self` as first parameter) or a free function as a tool.

        Raises: ToolDefinitionError naming the function and what is missing.
        """
        description, argument_texts = _read_docstring(function)
        parameters, check = arguments_of_signature(function, argument_texts)
        is_method = next(iter(inspect.signature(function).parameters), None) == "self"
        return cls(
            name=options.name or function.__name__,
            description=description,
            parameters=parameters,
            options=options,
            function=_with_own_defaults(function if is_method else _ignoring_environment(function)),
            is_async=inspect.iscoroutinefunction(function),
            check=check,
        )

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Any],
        **options: Any,
    ) -> Tool:
        """Return a tool whose arguments are described by a JSON Schema, for example from a server or a file.

        Args:
            name: the name that the agent writes.
            description: the description that the model reads.
            parameters: JSON Schema of the arguments, an object (draft 2020-12 unless `$schema` names another).
                References must stay inside the schema.
            call: takes the checked arguments as one dictionary; sync or async. It runs and fails like any tool.
            options: as for `@tool`.
        Raises: ToolDefinitionError if `parameters` is not such a schema.
        """
        checked_parameters, check = arguments_of_schema(name, parameters)

        def function(_environment: object, /, **arguments: Any) -> Any:
            return call(arguments)

        function.__qualname__ = name
        return cls(
            name=name,
            description=description,
            parameters=checked_parameters,
            options=ToolOptions.of(options),
            function=function,
            is_async=_is_async(call),
            check=check,
        )

    render_output = staticmethod(render_output)

    @staticmethod
    def collect(
        owner: type, free_tools: Iterable[Tool | Callable[..., Any]] = (), *, reserved: Container[str] = ()
    ) -> dict[str, Tool]:
        """Return by name the tools that a class defines or inherits, in order of definition, then the free tools.

        Args:
            reserved: names that methods marked as tools must not have.
        Raises: ToolDefinitionError naming the class, the function and what is missing.
        """
        methods: list[Tool] = []
        for cls in reversed(owner.__mro__):
            for attribute in vars(cls):
                function: Callable[..., Any] = vars(cls)[attribute]
                options: ToolOptions | None = getattr(function, _MARK, None)
                if options is None:
                    continue
                if attribute in reserved:
                    raise ToolDefinitionError(
                        f"{owner.__qualname__}.{attribute} cannot be a tool, because agentgym uses the name "
                        f"{attribute!r} in every class. Give the method another name, and keep the tool's name by "
                        f"@tool(name={attribute!r})."
                    )
                if isinstance(function, (staticmethod, classmethod)):
                    raise ToolDefinitionError(
                        f"{owner.__qualname__}.{attribute} is a {type(function).__name__}, but a tool must be a plain "
                        "method, because it acts on the environment of one episode."
                    )
                if getattr(owner, attribute, None) is function:
                    methods.append(Tool.from_function(function, options))
        return tools_by_name((*methods, *free_tools), owner.__qualname__)

    def __repr__(self) -> str:
        return f"Tool({self.signature()})"

    def schema(self) -> dict[str, Any]:
        """Return the tool in the OpenAI function-call format."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    def shown_schema(self) -> dict[str, Any]:
        """Return the schema as chat APIs show it to models: `type` first, without `additionalProperties: false`.

        Small models copy `additionalProperties` into their arguments. Arguments are still validated by `schema`.
        """
        schema = self.schema()
        schema["function"]["parameters"] = as_shown(self.parameters)
        return schema

    def signature(self, *, choices: bool = True) -> str:
        """Return one line such as `query(sql: string, mode: 'r' | 'w' = 'r')`, for errors and short prompts.

        Args:
            choices: show up to eight values of an enum instead of its type.
        """
        required = set(self.parameters.get("required", ()))
        parts = []
        for name, given in self.parameters["properties"].items():
            schema = given if isinstance(given, dict) else {}
            kind = self._choices(schema) if choices else None
            if kind is None:
                kind = schema.get("type") or "any"
                kind = kind if isinstance(kind, str) else " or ".join(kind)
            parts.append(f"{name}: {kind}" if name in required else f"{name}: {kind} = {schema.get('default')!r}")
        return f"{self.name}({', '.join(parts)})"

    def _choices(self, schema: dict[str, Any]) -> str | None:
        """Return the values of an enum, inline or behind a `$ref`; None for anything else."""
        reference = str(schema.get("$ref", ""))
        if reference.startswith("#/$defs/"):
            schema = self.parameters.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
        values = schema.get("enum")
        if not isinstance(values, list) or not values:
            return None
        return " | ".join(map(repr, values[:MAX_CHOICES])) + (" | ..." if len(values) > MAX_CHOICES else "")

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check the arguments and return them converted to their types.

        Raises: WrongArguments naming each wrong field, the given value and the expected one.
        """
        try:
            valid = self.check(arguments)
            for name, value in valid.items():
                if holds_lone_surrogate(value):
                    raise WrongArguments(
                        f"Wrong arguments for {self.name!r}: argument {name!r} contains half a character, an escape "
                        "from \\ud800 to \\udfff without its other half. Write the character itself."
                    )
        except InvalidArguments as error:
            expected = f". Expected {self.signature()}."
            raise WrongArguments(f"Wrong arguments for {self.name!r}: {error}{expected}") from error
        except RecursionError as error:
            raise WrongArguments(f"The arguments of {self.name!r} are nested too deeply.") from error
        return valid


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *,
    final: bool = ...,
    inline: bool = ...,
    parallel: bool = ...,
    timeout_s: float = ...,
    max_output_chars: int = ...,
    cost: float = ...,
    name: str | None = ...,
) -> Callable[[F], F]: ...
def tool(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Mark a typed method or function as a tool.

    A marked method is a tool of its environment class. A marked free function is given to environments with the class
    keyword `tools=[...]` or with `add_tools`. The schema is built at that point.

    Args:
        function: the function, when used as `@tool` without parentheses.
        options: see ToolOptions.
    Raises: ToolDefinitionError for unknown or invalid options.
    """
    chosen = ToolOptions.of(options)

    def mark(marked: F) -> F:
        setattr(marked, _MARK, chosen)
        return marked

    return mark(function) if function is not None else mark


def tools_by_name(tools: Iterable[Tool | Callable[..., Any]], owner: str) -> dict[str, Tool]:
    """Return tools and functions marked by `@tool` by name, in their order.

    Raises: ToolDefinitionError naming the owner, for a duplicate name or an item that is not a tool.
    """
    by_name: dict[str, Tool] = {}
    for item in tools:
        each = item if isinstance(item, Tool) else _tool_of(item, owner)
        if each.name in by_name:
            raise ToolDefinitionError(f"{owner} has two tools named {each.name!r}. Give one of them another `name`.")
        by_name[each.name] = each
    return by_name


def _tool_of(function: Callable[..., Any], owner: str) -> Tool:
    options: ToolOptions | None = getattr(function, _MARK, None)
    if options is None:
        raise ToolDefinitionError(
            f"{owner} was given {function!r:.80} as a tool, which is not one. Mark the function with @tool, or use "
            "Tool.from_schema."
        )
    return Tool.from_function(function, options)


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _ignoring_environment(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a free function to accept the environment as a first argument and ignore it."""

    @functools.wraps(function)
    def call(_environment: object, /, **arguments: Any) -> Any:
        return function(**arguments)

    return call


def _with_own_defaults(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that has mutable defaults: each call gets copies, so that no call changes another's."""
    defaults = {
        parameter.name: parameter.default
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is not parameter.empty and copy.deepcopy(parameter.default) is not parameter.default
    }
    if not defaults:
        return function

    @functools.wraps(function)
    def call(environment: object, /, **arguments: Any) -> Any:
        return function(environment, **{**copy.deepcopy(defaults), **arguments})

    return call


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description from a Google docstring, and the text of each argument.

    Written by hand: docstring-parser treats a section whose text starts on its title line (`Raises: ToolError if ...`)
    as part of the description, so the model would read it.
    """
    text = inspect.getdoc(function)
    if not text:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has no docstring, which the model reads to know what the tool does. "
            "Add one line, and an `Args:` section where the names are not clear enough."
        )
    head, _, rest = text.partition("\nArgs:\n")
    description = _NOT_FOR_THE_MODEL.split(head)[0]
    section = re.split(r"\n\S", rest)[0]
    argument_texts: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if match := re.match(r"\s{2,}(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line):
            name = match[1]
            argument_texts[name] = match[2].strip()
        elif name:
            argument_texts[name] += " " + line.strip()
    return " ".join(description.split()), argument_texts
