"""JSON answers of our servers, in ASCII: what a client sent may hold half of a surrogate pair, which no UTF-8 can."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class AsciiJSONResponse(JSONResponse):
    """A JSONResponse that escapes what is not ASCII."""

    def render(self, content: Any) -> bytes:
        """Write the content as JSON in ASCII. Raises: ValueError for NaN and infinite numbers."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
