"""The base of every class of options: recipe sections, checked dataclasses, and the text under each field."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache, wraps
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from agentgym.moved import moved_names
from agentgym.number_types import Count, Positive, Share, Weight, WholeNumber

__all__ = ["Count", "Positive", "Section", "Share", "Weight", "WholeNumber", "validated_dataclass"]

__getattr__ = moved_names(__name__)

_SECRETS = ("key", "token", "secret", "password", "headers")


class Registered(NamedTuple):
    """Mark a text field as a registered name: `Annotated[str | None, Registered("backends")]`."""

    kind: str
    """The kind under which the name is registered."""
    metavar: str = "NAME"
    """The placeholder for the value in a command's help."""


class Section(BaseModel):
    """A part of a recipe: frozen, and an unknown key is an error. The text under each field says what it does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documented_by: ClassVar[tuple[type, ...]] = ()
    """Classes whose field texts are used for fields of the same name that have no text here."""


def field_docs(cls: type) -> dict[str, str]:
    """Return the text under each field of a class and its bases, for help, reference pages and error messages.

    The source is read on demand, so that importing a class of options costs nothing.

    Returns: by field, the first paragraph of its text, on one line; later paragraphs are for Python readers only.
        Fields without a text are omitted, and so are all fields of a class whose source is unavailable.
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for other in vars(base).get("documented_by", ()):
            docs |= field_docs(other)
        docs |= _docs_in(base.__module__).get(base.__qualname__, {})
    fields = getattr(cls, "model_fields", None) or getattr(cls, "__dataclass_fields__", {})
    return {name: docs[name] for name in fields if name in docs}


@cache
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    """Read the texts under the fields of every class in a module, by the class's qualified name."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    docs: dict[str, dict[str, str]] = {}

    def read(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                docs[prefix + child.name] = _docs_of(child)
                read(child, f"{prefix}{child.name}.")
            else:
                name = getattr(child, "name", "")  # inside a function
                read(child, f"{prefix}{name}.<locals>." if name else prefix)

    read(tree, "")
    return docs


def _docs_of(cls: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for statement, below in zip(cls.body, cls.body[1:], strict=False):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return docs


def sections_in(annotation: Any) -> list[type[Section]]:
    """Return the section classes in a field's annotation, for example StageSection in `list[StageSection] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_in(part)]


def explain_refusal(error: ValidationError, section: type[Section]) -> str:
    """Explain on one line, key by key, why a section is invalid, with the key's meaning or the nearest known key."""
    lines = []
    for item in error.errors(include_url=False):
        key = ".".join(map(str, item["loc"])) or "recipe"
        if item["type"] == "extra_forbidden":
            holder, name = _find_field(section, item["loc"])
            lines.append(f"there is no key {key!r}. {_nearest(name, holder)}")
        elif item["type"] == "value_error":
            lines.append(f"{key}: {item['ctx']['error']}")
        elif item["type"] == "missing":
            lines.append(f"the key {key!r} is missing{_meaning(*_find_field(section, item['loc']))}")
        else:
            meaning = _meaning(*_find_field(section, item["loc"]))
            lines.append(f"{key} = {item['input']!r}: {item['msg']}{meaning}")
    return "; ".join(lines)


def _find_field(section: type[Section], location: Sequence[int | str]) -> tuple[type[Section], str]:
    """Return the innermost section on the path to a location in a recipe, and the field name in that section."""
    parts = list(location)
    while len(parts) > 1 and (field_info := section.model_fields.get(str(parts[0]))) is not None:
        below = parts[2:] if _holds_many(field_info.annotation) else parts[1:]  # skip the entry's index or name
        inner = sections_in(field_info.annotation)
        if not (below and inner):
            break
        section, parts = inner[0], below
    return section, str(parts[0]) if parts else ""


def _holds_many(annotation: Any) -> bool:
    return get_origin(annotation) in (list, dict, tuple) or any(map(_holds_many, get_args(annotation)))


def _nearest(name: str, section: type[Section]) -> str:
    known = list(section.model_fields)
    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?{_meaning(section, close[0])}" if close else f"Known: {', '.join(known)}."


def _meaning(cls: type, name: str) -> str:
    """Return the first sentence of a field's text, in parentheses; empty if the field has no text."""
    sentence = field_docs(cls).get(name, "").partition(". ")[0].rstrip(".")
    return f" ({name}: {sentence}.)" if sentence else ""


C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def validated_dataclass(*, kw_only: bool = False) -> Callable[[C], C]:
    """Turn a class into a frozen dataclass whose constructor checks each value against its annotation.

    The constructor raises ValueError naming each wrong field, its value and the accepted values, and TypeError for
    a keyword that is not a field. Types that pydantic does not know are checked by isinstance.
    """

    def decorate(cls: C) -> C:
        checked: Any = dataclass(
            frozen=True, slots=True, kw_only=kw_only, config=ConfigDict(arbitrary_types_allowed=True, extra="forbid")
        )(cls)
        construct = checked.__init__

        @wraps(construct)
        def __init__(self: object, *args: Any, **options: Any) -> None:
            try:
                construct(self, *args, **options)
            except ValidationError as error:
                raise _explained(checked, error) from None

        checked.__init__ = __init__
        return checked  # type: ignore[no-any-return]

    return decorate


def _explained(cls: type, error: ValidationError) -> Exception:
    names = list(cls.__dataclass_fields__)  # type: ignore[attr-defined]
    problems: dict[str, str] = {}
    for item in error.errors(include_url=False):
        name = str(item["loc"][0])
        if item["type"] == "unexpected_keyword_argument":
            near = get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]!r}?{_meaning(cls, near[0])}" if near else f"It has {', '.join(names)}."
            return TypeError(f"{cls.__name__} has no field {name!r}. {hint}")
        if item["type"] == "missing":
            problems[name] = f"{cls.__name__}.{name} is missing"
            continue
        reason = item["msg"][0].lower() + item["msg"][1:]
        if name in problems:  # each member of a union reports its own error
            problems[name] += f", or {reason}"
        else:
            problems[name] = f"{cls.__name__}.{name} is {item['input']!r}: {reason}"
    return ValueError("; ".join(f"{problem}{_meaning(cls, name)}" for name, problem in problems.items()) + ".")


def kept_arguments(value: object) -> dict[str, object]:
    """Return the constructor arguments that an object stores under their own names, with or without an underscore.

    Arguments whose names end like a secret's (key, token, password) are left out.
    """
    attributes = {field.name: getattr(value, field.name) for field in fields(value)} if is_dataclass(value) else {}
    attributes |= getattr(value, "__dict__", {})
    try:
        parameters = inspect.signature(type(value)).parameters
    except (TypeError, ValueError):  # a class written in C
        return {}
    stored = {name: next((each for each in (name, f"_{name}") if each in attributes), None) for name in parameters}
    return {
        name: attributes[attribute]
        for name, attribute in stored.items()
        if attribute is not None and not name.endswith(_SECRETS)
    }
