"""Command options from the fields of a class: with their types, their defaults, and the text under each as help.

`@takes(agent=AgentOptions)` gives a command one option per field of AgentOptions, and the command receives an
instance as its argument `agent`. Fields that hold another class of options are flattened, and fields without a
one-word text form are left out. The classes are inspected when the command runs or its help is shown: a function
that returns a class may import it, so that `agentgym --help` imports no more than it needs.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from dataclasses import field as dataclass_field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typing_extensions import override

from agentgym.cli.help import HelpfulCommand
from agentgym.errors import AgentGymError

_SAID_IN_A_WORD = (str, int, float, bool, Path)


class OptionValueError(AgentGymError, ValueError):
    """A command's options are incompatible, or an option has an invalid value."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of a class that become options, for a command that uses only some fields or has its own defaults."""

    options: type
    """The class of options."""
    only: Sequence[str] | Mapping[str, str] | None = None
    """The fields that become options, or a mapping from option names to fields. By default all fields."""
    defaults: Mapping[str, Any] = dataclass_field(default_factory=dict)
    """This command's defaults by option name, overriding the class's."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A field that becomes an option."""

    path: tuple[str, ...]
    """The path of field names from the command's class to this field."""
    parameter: inspect.Parameter
    """The option as a parameter of a function that Typer understands."""


def takes(**sources: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace each named argument of a command by options for the fields of a class.

    The command must be registered with `cls=FieldsCommand`.

    Args:
        sources: per argument a class of options, Fields of a class, or a function that returns either.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = _own_parameters(command, sources)

        def call(**values: Any) -> None:
            raise AssertionError(f"The command {command.__name__} must be registered with cls=FieldsCommand.")

        unexpanded = _with_parameters(call, command, [p for p in own.values() if p.name not in sources])
        unexpanded.expand = lambda: _expand(command, own, sources)  # type: ignore[attr-defined]
        return unexpanded

    return decorate


def _own_parameters(command: Callable[..., None], sources: Mapping[str, Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a command, with resolved annotations, except for parameters that represent fields."""
    written = {name: text for name, text in command.__annotations__.items() if name not in {"return", *sources}}
    hints = get_type_hints(types.SimpleNamespace(__annotations__=written), command.__globals__, include_extras=True)
    parameters = inspect.signature(command).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    return {p.name: p.replace(kind=kind, annotation=hints.get(p.name, p.empty)) for p in parameters}


def _with_parameters(
    call: Callable[..., None], command: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Give a function the name and docstring of a command, and these parameters."""
    named = wraps(command)(call)
    named.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    named.__annotations__ = {p.name: p.annotation for p in parameters}
    return named


class FieldsCommand(HelpfulCommand):
    """A command whose options may be fields of classes, which are inspected lazily."""

    @override
    def get_params(self, ctx: Any) -> Any:
        if (expand := getattr(self.callback, "expand", None)) is not None:
            application = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            application.command(self.name)(expand())
            expanded: Any = typer.main.get_command(application)
            self.params, self.callback = expanded.params, expanded.callback
        return super().get_params(ctx)


def _expand(
    command: Callable[..., None], own: Mapping[str, inspect.Parameter], sources: Mapping[str, Any]
) -> Callable[..., None]:
    """Return a function with one parameter per field, which calls the command with instances of the classes."""
    loaded = {name: _loaded(source) for name, source in sources.items()}
    leaves = {name: list(_leaves(source)) for name, source in loaded.items()}

    def call(**values: Any) -> None:
        instances = {}
        for name, source in loaded.items():
            given = {leaf.path: values.pop(leaf.parameter.name) for leaf in leaves[name]}
            instances[name] = _make(source.options, given)
        command(**instances, **values)

    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        parameters += [leaf.parameter for leaf in leaves[name]] if name in leaves else [parameter]
    return _with_parameters(call, command, parameters)


def _loaded(source: Any) -> Fields:
    loaded = source() if inspect.isfunction(source) else source
    return loaded if isinstance(loaded, Fields) else Fields(loaded)


def _leaves(source: Fields) -> Iterator[_Leaf]:
    """Yield the fields of a class that become options, including fields of nested classes."""
    leaves = {leaf.parameter.name: leaf for leaf in _fields_of(source.options, (), None)}
    only = list(leaves) if source.only is None else source.only
    names = only if isinstance(only, Mapping) else {name: name for name in only}
    if unknown := [name for name in source.defaults if name not in names]:
        raise ValueError(f"{source.options.__name__} has no option {unknown[0]!r}, so no default can be set for it.")
    for name, field_name in names.items():
        leaf = leaves[field_name]
        default = source.defaults.get(name, leaf.parameter.default)
        yield replace(leaf, parameter=leaf.parameter.replace(name=name, default=default))


def _fields_of(source: Any, path: tuple[str, ...], panel: str | None) -> Iterator[_Leaf]:
    from agentgym.options import field_docs

    cls = source if isinstance(source, type) else type(source)
    hints, texts, panel = get_type_hints(cls, include_extras=True), field_docs(cls), getattr(cls, "panel", panel)
    for field in fields(cls):
        default = _default(source, field)
        if is_dataclass(default):
            yield from _fields_of(default, (*path, field.name), panel)
        elif (annotation := _annotation(hints[field.name])) is not None:
            info = _info(hints[field.name], texts.get(field.name, ""), panel)
            empty = inspect.Parameter.empty
            parameter = inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=empty if default is MISSING else default,
                annotation=Annotated[annotation, info],
            )
            yield _Leaf((*path, field.name), parameter)


def _default(source: Any, field: Any) -> Any:
    if not isinstance(source, type):
        return getattr(source, field.name)
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _annotation(annotation: Any) -> Any:
    """Return the type of an option for a field; None if the field has no one-word text form."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotation(parts[0])
    if origin in (Union, types.UnionType):
        choices = [choice for part in parts if part is not type(None) and (choice := _annotation(part)) is not None]
        return (choices[0] | None if type(None) in parts else choices[0]) if choices else None
    is_list = origin is list and _annotation(parts[0]) is not None
    return annotation if annotation in _SAID_IN_A_WORD or origin is Literal or is_list else None


def _info(annotation: Any, text: str, panel: str | None) -> Any:
    """Return Typer's description of an option, from the annotation, with its text as help and its limits.

    Typer has no exclusive limits such as `gt=0`: the class itself refuses the limit value.
    """
    from agentgym.options import Registered

    info: Any = typer.Option()
    limits: dict[str, Any] = {}
    for mark in _marks(annotation):
        if isinstance(mark, (typer.models.OptionInfo, typer.models.ArgumentInfo)):
            info = copy(mark)
        elif isinstance(mark, Registered):
            limits |= {"callback": known_name(mark.kind), "metavar": mark.metavar}
        elif (least := getattr(mark, "ge", getattr(mark, "gt", None))) is not None:
            limits["min"] = least
        elif (most := getattr(mark, "le", None)) is not None:
            limits["max"] = most
    for name, value in limits.items():
        setattr(info, name, value)
    info.help, info.rich_help_panel = text, panel
    return info


def _marks(annotation: Any) -> Iterator[Any]:
    """Yield an annotation's metadata, also inside a union: limits, and the spelling of an option."""
    for part in get_args(annotation):
        yield from _marks(part)
    for mark in getattr(annotation, "__metadata__", ()):
        yield from getattr(mark, "metadata", (mark,))


def _make(source: Any, values: Mapping[tuple[str, ...], Any]) -> Any:
    """Create an instance from values by path. Raises: OptionValueError naming the fault."""
    cls = source if isinstance(source, type) else type(source)
    arguments: dict[str, Any] = {}
    for field in fields(cls):
        inner = {path[1:]: value for path, value in values.items() if path[0] == field.name}
        if () in inner:
            arguments[field.name] = inner[()]
        elif inner:
            arguments[field.name] = _make(_default(source, field), inner)
    try:
        return cls(**arguments) if isinstance(source, type) else replace(source, **arguments)
    except ValueError as error:
        raise OptionValueError(str(error)) from error


def known_name(kind: Any) -> Callable[[str | None], str | None]:
    """Return an option's callback that refuses unregistered names, even if the option would not be used."""

    def check(name: str | None) -> str | None:
        from agentgym import registry

        if name is not None and name not in registry.names(kind):
            registry.load(kind, name)
        return name

    return check
