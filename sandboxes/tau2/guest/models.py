"""Replaces the part of pydantic that the domains of tau2-bench use for their models.

Values are checked and converted as pydantic 2 does in Python without `strict`. Unsupported features (other names of
pydantic, other arguments of `Field` and `ConfigDict`, other field types, unions of anything but models) are refused
when the domain is imported, so that no model silently behaves differently.
"""

from __future__ import annotations

import copy
import enum
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from .values import CHECKS, Check, ValidationError, dict_of, enum_of, invalid, list_of, literal_of

T = TypeVar("T", bound="BaseModel")
UNSET: Any = object()


class FieldInfo:
    """A field's settings, as `Field` gives them."""

    def __init__(self, default: Any, default_factory: Any, description: str | None, validate_default: bool) -> None:
        self.default, self.default_factory = default, default_factory
        self.description, self.validate_default = description, validate_default
        self.annotation: Any = None
        self.check: Check = lambda value: value

    @property
    def is_required(self) -> bool:
        return self.default is UNSET and self.default_factory is None

    def value(self) -> Any:
        """Return the default."""
        value = self.default_factory() if self.default_factory is not None else self.default
        if isinstance(value, list | dict | set):
            value = copy.deepcopy(value)
        return self.check(value) if self.validate_default else value


def Field(
    default: Any = UNSET,
    *,
    default_factory: Callable[[], Any] | None = None,
    description: str | None = None,
    validate_default: bool = False,
) -> Any:
    """Return a field's default and description."""
    default = UNSET if default is ... else default
    return FieldInfo(default, default_factory, description, validate_default)


def ConfigDict(*, extra: str = "ignore") -> dict[str, str]:
    """Return the configuration. `extra`: the treatment of names that are not fields, "ignore" or "forbid"."""
    if extra not in ("ignore", "forbid"):
        raise NotImplementedError(f"pydantic's ConfigDict(extra={extra!r}) is not supported in the sandbox")
    return {"extra": extra}


class BaseModel:
    """A model with typed fields. Values are checked on creation, not on assignment."""

    model_config: typing.ClassVar[dict[str, str]] = {"extra": "ignore"}
    model_fields: typing.ClassVar[dict[str, FieldInfo]] = {}

    def __init_subclass__(cls) -> None:
        fields = {name: field for base in reversed(cls.__mro__[1:]) for name, field in _fields(base).items()}
        for name, annotation in inspect.get_annotations(cls).items():
            if name == "model_config" or name.startswith("_"):
                continue
            fields[name] = _field(cls, name, annotation, cls.__dict__.get(name, UNSET))
            if name in cls.__dict__:
                delattr(cls, name)
        cls.model_fields = fields

    def __init__(self, /, **values: Any) -> None:
        held, faults = self.__dict__, []
        for name, field in self.model_fields.items():
            try:
                if name in values:
                    held[name] = field.check(values[name])
                elif field.is_required:
                    faults.append(((name,), "Field required"))
                else:
                    held[name] = field.value()
            except ValidationError as error:
                faults += [((name, *path), fault) for path, fault in error.faults]
        if self.model_config.get("extra") == "forbid":
            faults += [((name,), "Extra inputs are not permitted") for name in values if name not in self.model_fields]
        if faults:
            raise ValidationError(*faults, title=type(self).__name__)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.model_fields:
            raise ValueError(f'"{type(self).__name__}" object has no field "{name}"')
        self.__dict__[name] = value

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__ if isinstance(other, BaseModel) else False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, value in self.__dict__.items())

    @classmethod
    def model_validate(cls: type[T], value: Any) -> T:
        """Return a model from a dictionary. Raises: ValidationError."""
        try:
            return typing.cast(T, _model(cls)(value))
        except ValidationError as error:
            raise ValidationError(*error.faults, title=cls.__name__) from None

    def model_dump(self) -> dict[str, Any]:
        """Return the fields, with models turned into dictionaries."""
        return {name: plain(value) for name, value in self.__dict__.items()}

    def model_dump_json(self, *, indent: int | None = None) -> str:
        separators = None if indent else (",", ":")
        return json.dumps(self.model_dump(), indent=indent, separators=separators, ensure_ascii=False, default=str)

    def model_copy(self: T, *, deep: bool = False) -> T:
        return copy.deepcopy(self) if deep else copy.copy(self)


def plain(value: Any) -> Any:
    """Return a value with models turned into dictionaries."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple, set) else value


def _fields(base: type) -> dict[str, FieldInfo]:
    return typing.cast(dict[str, FieldInfo], base.__dict__.get("model_fields", {}))


def _field(model: type, name: str, annotation: Any, given: Any) -> FieldInfo:
    """Read a field. Raises: NotImplementedError for an unsupported type."""
    field = given if isinstance(given, FieldInfo) else FieldInfo(given, None, None, False)
    inner, described = unwrapped(annotation)
    field = copy.copy(field)
    if described is not None:
        field.description = field.description if field.description is not None else described.description
        if field.is_required:
            field.default, field.default_factory = described.default, described.default_factory
            field.validate_default = described.validate_default
    field.annotation = annotation
    try:
        field.check = check_of(inner)
    except NotImplementedError as error:
        raise NotImplementedError(f"{model.__name__}.{name}: {error}") from None
    return field


def unwrapped(annotation: Any) -> tuple[Any, FieldInfo | None]:
    """Return the type inside `Annotated`, and its `Field`.

    Raises: NotImplementedError for any other annotation.
    """
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation, None
    inner, *metadata = typing.get_args(annotation)
    if len(metadata) != 1 or not isinstance(metadata[0], FieldInfo):
        raise NotImplementedError(f"pydantic's {annotation!r} is not supported in the sandbox")
    return inner, metadata[0]


def check_of(annotation: Any) -> Check:
    """Return the check of a type's values. Raises: NotImplementedError for an unsupported type."""
    annotation, _ = unwrapped(annotation)
    if annotation in CHECKS:
        return CHECKS[annotation]
    origin, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin is typing.Literal and all(isinstance(each, str) for each in arguments):
        return literal_of(arguments)
    if origin is list:
        return list_of(*map(check_of, arguments))
    if origin is dict:
        return dict_of(*map(check_of, arguments))
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return enum_of(annotation)
    raise NotImplementedError(f"pydantic's fields of type {annotation!r} are not supported in the sandbox")


def _union(members: tuple[Any, ...]) -> Check:
    """Return the check of a union: None or one type, or several models. Raises: NotImplementedError for others."""
    kinds = [unwrapped(member)[0] for member in members if member is not type(None)]
    checks = [check_of(kind) for kind in kinds]
    if len(kinds) > 1 and not all(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds):
        raise NotImplementedError(f"pydantic's unions of {kinds} are not supported in the sandbox")
    takes_none = len(kinds) < len(members)

    def check(value: Any) -> Any:
        if value is None and takes_none:
            return None
        if len(checks) == 1:
            return checks[0](value)
        fitting, faults = [], []
        for kind, each in zip(kinds, checks, strict=True):
            if type(value) is kind:
                return value
            try:
                fitting.append(each(value))
            except ValidationError as error:
                faults += [((kind.__name__, *path), fault) for path, fault in error.faults]
        if len(fitting) > 1:
            raise NotImplementedError(f"{value!r:.100} matches more than one of {[kind.__name__ for kind in kinds]}")
        if not fitting:
            raise ValidationError(*faults)
        return fitting[0]

    return check


def _model(kind: type[BaseModel]) -> Check:
    def check(value: Any) -> BaseModel:
        if isinstance(value, kind):
            return value
        if isinstance(value, dict):
            return kind(**value)
        raise invalid(f"Input should be a valid dictionary or instance of {kind.__name__}")

    return check


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"pydantic.{name} is not supported in the sandbox, which has only what tau2-bench's own domains use"
    )
