"""The arguments of a tool: a JSON Schema for the model, and the check of the arguments that the model wrote.

The schema is built from a Python signature (pydantic validates) or given directly (jsonschema validates).
Both checks raise `InvalidArguments` with the same wording.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

from agentgym.errors import ToolDefinitionError

Check = Callable[[Any], dict[str, Any]]
"""Returns the arguments converted to their types, or raises InvalidArguments."""

MAX_PROBLEMS = 5
"""The maximum number of problems reported for one call."""

_CLOSING_KEYWORDS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_COMBINING_KEYWORDS = ("allOf", "anyOf", "oneOf", "if", "$ref")
_DATA_KEYWORDS = ("default", "const", "enum", "examples", "example")
_TYPE_NAMES = {"object": "dictionary", "array": "list"}
_RULES = {
    "const": "Input should be {!r}",
    "minimum": "Input should be greater than or equal to {}",
    "maximum": "Input should be less than or equal to {}",
    "exclusiveMinimum": "Input should be greater than {}",
    "exclusiveMaximum": "Input should be less than {}",
    "multipleOf": "Input should be a multiple of {}",
    "minLength": "String should have at least {} characters",
    "maxLength": "String should have at most {} characters",
    "pattern": "String should match pattern {!r}",
    "minItems": "List should have at least {} items",
    "maxItems": "List should have at most {} items",
    "uniqueItems": "List should have no item twice",
}


class WrongArguments(Exception):
    """The arguments of a call do not fit the tool; the message is written for the model."""


class InvalidArguments(Exception):
    """The arguments are invalid. `problems` holds one clause per problem, such as `argument 'x' is missing`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def arguments_of_signature(
    function: Callable[..., Any], descriptions: Mapping[str, str]
) -> tuple[dict[str, Any], Check]:
    """Return the JSON Schema of a function's parameters without `self`, and their check.

    Args:
        descriptions: text for the model, by parameter name.
    Raises: ToolDefinitionError naming the function and the parameter.
    """
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from typing_extensions import TypedDict  # before Python 3.12, pydantic refuses the one of typing

    hints = _hints_of(function)
    parameters = [p for name, p in inspect.signature(function).parameters.items() if name != "self"]
    fields = {p.name: _field(function, p, hints, descriptions) for p in parameters}
    if unknown := set(descriptions) - set(fields):
        raise ToolDefinitionError(
            f"The docstring of {function.__qualname__!r} describes {sorted(unknown)}, which are not its parameters. "
            "Correct the names."
        )
    shape = cast("Any", TypedDict(f"{function.__name__}_arguments", fields))  # type: ignore[operator]
    shape.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    try:
        adapter = TypeAdapter(shape)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has a type that has no JSON Schema: {error}"
        ) from error
    _drop_titles(schema)
    schema.setdefault("properties", {})
    for parameter in parameters:
        if parameter.default is not parameter.empty:
            schema["properties"][parameter.name]["default"] = _default_as_json(function, parameter, hints)
    schema["additionalProperties"] = False
    return schema, _pydantic_check(adapter.validator.validate_python)


def arguments_of_schema(tool_name: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any], Check]:
    """Return a given JSON Schema, completed for models, and its check.

    A schema that does not say whether it allows other arguments gets `additionalProperties: false`, so that the model
    is told of a misspelt name.
    Raises: ToolDefinitionError if it is not a JSON Schema of an object, or refers to another document.
    """
    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    given = copy.deepcopy(dict(schema))
    given.setdefault("type", "object")
    given.setdefault("properties", {})
    if not any(keyword in given for keyword in (*_CLOSING_KEYWORDS, *_COMBINING_KEYWORDS)):
        given["additionalProperties"] = False
    if given["type"] != "object" or not isinstance(given["properties"], dict):
        raise ToolDefinitionError(
            f"The parameters of the tool {tool_name!r} must be the JSON Schema of an object, but they are "
            f'{_short(schema, 200)}. Write {{"type": "object", "properties": {{...}}, "required": [...]}}.'
        )
    validator_class = validator_for(given, default=Draft202012Validator)
    try:
        json.dumps(given, allow_nan=False, ensure_ascii=False).encode()
        validator_class.check_schema(given)
        _check_references(given)
    except (SchemaError, TypeError, ValueError) as error:
        text = error.message if isinstance(error, SchemaError) else str(error)
        raise ToolDefinitionError(
            f"The parameters of the tool {tool_name!r} are not a JSON Schema that can be used: {text[:300]}"
        ) from error
    return given, _json_schema_check(validator_class(given))


def holds_lone_surrogate(value: Any) -> bool:
    """Return whether plain data holds half a surrogate pair, which JSON escapes can encode but UTF-8 cannot."""
    if isinstance(value, str):
        return not value.isascii() and not _is_utf8(value)
    if value is None or isinstance(value, (int, float)):
        return False
    if isinstance(value, dict):
        return any(holds_lone_surrogate(key) or holds_lone_surrogate(item) for key, item in value.items())
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(holds_lone_surrogate, value))


def replace_lone_surrogates(value: Any) -> Any:
    """Return a copy of plain data with surrogate pairs joined and each lone surrogate replaced by U+FFFD.

    Tokenizers and UTF-8 encoders do not accept lone surrogates.
    """
    if isinstance(value, str):
        return (
            value
            if value.isascii() or _is_utf8(value)
            else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): replace_lone_surrogates(item) for key, item in value.items()}
    return type(value)(map(replace_lone_surrogates, value)) if isinstance(value, (list, tuple)) else value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---- from a signature ------------------------------------------------------------------------------------------------


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has a type hint that cannot be resolved: {error}."
        ) from error


def _field(
    function: Callable[..., Any],
    parameter: inspect.Parameter,
    hints: Mapping[str, Any],
    descriptions: Mapping[str, str],
) -> Any:
    """Return the type of one parameter as a field of a TypedDict, with its description."""
    from typing import NotRequired

    from pydantic import Field

    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} takes {parameter}, but a model can only fill parameters that have a "
            "name. Write each parameter out."
        )
    if parameter.name not in hints:
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has no type hint for {parameter.name!r}, which is needed for the "
            f"schema that the model sees. Write for example `{parameter.name}: str`."
        )
    hint = hints[parameter.name]
    if parameter.name in descriptions:
        hint = typing.Annotated[hint, Field(description=descriptions[parameter.name])]
    return hint if parameter.default is parameter.empty else NotRequired[hint]


def _default_as_json(function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """Return a default as the agent would write it: a date as text, an Enum as its value, a dataclass as an object.

    Raises: ToolDefinitionError for a default that JSON cannot represent, such as an infinite number.
    """
    from pydantic import TypeAdapter

    default = parameter.default
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hints[parameter.name])
        as_json = adapter.dump_python(default, mode="json", warnings=False)
        if _not_finite(default) is not None:  # pydantic writes null for a default without a given type
            raise ValueError("a number that is not finite")
        json.dumps(as_json, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:  # includes pydantic's errors
        raise ToolDefinitionError(
            f"The tool {function.__qualname__!r} has a default that JSON cannot express: {parameter.name} = "
            f"{_short(default)}. The schema that the model sees shows the default, so use None, a number or a text, "
            "and convert it in the body."
        ) from error
    return as_json


def _drop_titles(schema: Any) -> None:
    """Delete the titles that pydantic derives from names, which only cost tokens. Leave data such as defaults alone."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for keyword, value in schema.items():
            if keyword not in _DATA_KEYWORDS:
                _drop_titles(value)
    elif isinstance(schema, list):
        for value in schema:
            _drop_titles(value)


def _pydantic_check(validate: Callable[[Any], Any]) -> Check:
    from pydantic import ValidationError

    def check(arguments: Any) -> dict[str, Any]:
        try:
            valid: dict[str, Any] = validate(arguments)
            return valid
        except ValidationError as error:
            details = error.errors(include_url=False)[:MAX_PROBLEMS]
            raise InvalidArguments([_pydantic_problem(detail) for detail in details]) from error

    return check


def _pydantic_problem(detail: Mapping[str, Any]) -> str:
    path = ".".join(map(str, detail["loc"]))
    if detail["type"] == "missing":
        return _missing(path)
    if detail["type"] == "extra_forbidden":
        return _unknown(path)
    return _wrong(path, detail["msg"], detail.get("input"))


# ---- from a JSON Schema ----------------------------------------------------------------------------------------------


def _check_references(schema: dict[str, Any]) -> None:
    """Raise ValueError for a reference that leads nowhere or out of the schema."""
    for node in _schemas_in(schema):
        reference = node.get("$ref", node.get("$dynamicRef", "#"))
        if isinstance(reference, str) and not reference.startswith("#"):
            raise ValueError(
                f"it refers to another document, {reference!r}. Put the schema that it needs into `$defs`."
            )
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = schema
            for step in reference[2:].split("/"):
                step = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(target, dict) or step not in target:
                    raise ValueError(f"it refers to {reference!r}, which does not exist.")
                target = target[step]


def _schemas_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _schemas_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _schemas_in(item)


def _json_schema_check(validator: Any) -> Check:
    def check(arguments: Any) -> dict[str, Any]:
        problems = islice(
            (line for error in validator.iter_errors(arguments) for line in _problems(error)), MAX_PROBLEMS
        )
        if lines := list(problems):
            raise InvalidArguments(lines)
        if (path := _not_finite(arguments)) is not None:
            raise InvalidArguments([_wrong(path, "Input should be a finite number", math.nan)])
        return dict(arguments)

    return check


def _problems(error: Any) -> Iterator[str]:
    """Yield clauses about one jsonschema error. Its own message is not used: it holds the whole value, however long."""
    path, rule = ".".join(map(str, error.absolute_path)), error.validator_value
    if error.validator == "required":
        name = next((name for name in rule if f"{name!r} is" in error.message), rule[0])
        yield _missing(_join(path, name))
    elif error.validator in ("additionalProperties", "unevaluatedProperties") and rule is False:
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        for name in error.instance:
            if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                yield _unknown(_join(path, name))
    else:
        yield _wrong(path, _expected(error.validator, rule), error.instance)


def _expected(keyword: str, rule: Any) -> str:
    """Return what a JSON Schema keyword requires, in pydantic's wording."""
    if keyword == "type":
        names = [_TYPE_NAMES.get(name, name) for name in ([rule] if isinstance(rule, str) else rule)]
        return f"Input should be a valid {' or '.join(names)}"
    if keyword == "enum":
        texts = [repr(choice) for choice in rule]
        return f"Input should be {', '.join(texts[:-1])}{' or ' if texts[1:] else ''}{texts[-1]}"
    if keyword in ("anyOf", "oneOf"):
        count = "exactly one" if keyword == "oneOf" else "one"
        kinds: list[Any] = [shape.get("type") if isinstance(shape, dict) else None for shape in rule]
        if all(isinstance(kind, str) for kind in kinds):
            return f"Input should be {count} of: {', '.join(_TYPE_NAMES.get(kind, kind) for kind in kinds)}"
        return f"Input should fit {count} of the {len(rule)} shapes that the schema allows"
    template = _RULES.get(keyword)
    return template.format(rule) if template else f"Input should satisfy {keyword}: {_short(rule)}"


def _not_finite(value: Any, path: str = "") -> str | None:
    """Return the path of the first NaN or infinity, which JSON cannot represent; None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((hit for key, item in items if (hit := _not_finite(item, _join(path, key))) is not None), None)


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


# ---- the sentences ---------------------------------------------------------------------------------------------------


def _missing(path: str) -> str:
    return f"argument {_short(path)} is missing"


def _unknown(path: str) -> str:
    return f"there is no argument {_short(path)}"  # the agent may have made up a very long name


def _wrong(path: str, expected: str, value: Any) -> str:
    return f"argument {_short(path or 'arguments')}: {expected} (you gave {_short(value)})"


def _short(value: Any, limit: int = 60) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a hostile __repr__ or endless nesting must not break an error message
        text = type(value).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
