"""The base of what describes a game as plain data."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError


class PlainData(BaseModel):
    """A part of a game. It has no other fields than those declared, and cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, data: Any) -> Self:
        """Check data and return what it describes. Raises: ValueError with one line that names the wrong part."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["type"] == "value_error":
                raise ValueError(str(first["ctx"]["error"])) from None
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"{where}: {first['msg']}, found {first['input']!r:.80}") from None
