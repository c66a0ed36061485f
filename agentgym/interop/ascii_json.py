"""JSON answers of our servers, in ASCII: they may echo a client's lone surrogate, which UTF-8 cannot encode."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class AsciiJSONResponse(JSONResponse):
    """A JSONResponse that escapes non-ASCII characters."""

    def render(self, content: Any) -> bytes:
        """Write the content as JSON in ASCII. Raises: ValueError for NaN and infinite numbers."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
